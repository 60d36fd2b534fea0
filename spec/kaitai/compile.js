// Compile a Kaitai Struct definition to Python: node compile.js DEFINITION DIRECTORY
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const compiler = require("kaitai-struct-compiler");
const yaml = require("yaml");

async function main() {
  const [definition, directory] = process.argv.slice(2);
  const structure = yaml.parse(fs.readFileSync(definition, "utf8"));
  const files = await compiler.compile("python", structure, null, false);
  for (const [name, text] of Object.entries(files)) {
    fs.writeFileSync(path.join(directory, name), text);
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
