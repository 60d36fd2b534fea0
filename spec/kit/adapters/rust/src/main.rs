//! The Rust rewrite of RocketMQ behind the protocol of the conformance kit.
//!
//! `rocketmq-store-local` has the codec and the drivers of the index, and no file: here they work on
//! the bytes of a request, put together as `rocketmq-store` 1.0.0 does (`index_file.rs`,
//! `index_header.rs`, `index_service.rs`), whose own modules are private.

use std::cell::RefCell;
use std::io::{self, BufRead, Write};

use rocketmq_model::common::hasher::string_hasher::JavaStringHasher;
use rocketmq_store_local::index::codec::{
    hash_slot_position, index_entry_position, index_file_total_size, IndexEntry, IndexHeaderRecord,
    IndexSlot, INDEX_HEADER_SIZE,
};
use rocketmq_store_local::index::file::{
    drive_index_put, is_index_time_matched, normalize_index_key_hash, query_index_offsets,
    IndexFileSnapshot, IndexHeaderUpdate, IndexPutOutcome,
};
use rocketmq_store_local::index::service::{
    build_index_key_into, drive_index_build_keys, drive_index_service_put,
    expired_index_file_count, has_indexable_keys, index_flush_checkpoint_timestamp,
    max_index_dispatch_offset, plan_index_build, plan_last_index_file, query_index_files,
    IndexBuildPreflight, IndexServiceFile,
};
use serde_json::{json, Map, Value};

const UNIQUE_TYPE: &str = "U";
const TAG_TYPE: &str = "T";
const KEY_SEPARATOR: &str = " ";
const ROLLBACK: i64 = 12;
const MAX_MSGS_NUM_BATCH: i64 = 64;

type Answer = Result<Value, String>;

/// One file in memory.
struct File {
    name: String,
    slots: usize,
    places: usize,
    data: RefCell<Vec<u8>>,
    header: RefCell<IndexHeaderRecord>,
}

impl File {
    fn create(slots: usize, places: usize, offset: i64, time: i64) -> Result<Self, String> {
        let size = index_file_total_size(slots, places).ok_or("the layout is refused")?;
        let mut header = IndexHeaderRecord { index_count: 1, ..Default::default() };
        if offset > 0 {
            header.begin_phy_offset = offset;
            header.end_phy_offset = offset;
        }
        if time > 0 {
            header.begin_timestamp = time;
            header.end_timestamp = time;
        }
        Ok(Self {
            name: String::new(),
            slots,
            places,
            data: RefCell::new(vec![0; size]),
            header: RefCell::new(header),
        })
    }

    /// Load a file as one that is mapped: of the size of its geometry, zeros where it is shorter.
    fn load(name: &str, slots: usize, places: usize, hex: &str) -> Result<Self, String> {
        let mut file = Self::create(slots, places, 0, 0)?;
        let mut data = unhex(hex)?;
        data.resize(file.data.borrow().len(), 0);
        let header = IndexHeaderRecord::decode(&data).ok_or("no header")?;
        file.name = name.into();
        file.data = RefCell::new(data);
        file.header = RefCell::new(header);
        Ok(file)
    }

    fn snapshot(&self) -> IndexFileSnapshot {
        let header = self.header.borrow();
        IndexFileSnapshot::new(self.slots, self.places, header.index_count, header.begin_timestamp)
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.data.borrow().get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn put(&self, key: &str, offset: i64, time: i64) -> bool {
        let mut updates = Vec::new();
        let outcome = drive_index_put(
            self.snapshot(),
            hash(key),
            offset,
            time,
            |at| self.bytes(at),
            |at, bytes| self.data.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes),
            |update| updates.push(update),
        );
        let mut header = self.header.borrow_mut();
        for update in updates {
            match update {
                IndexHeaderUpdate::SetBeginPhyOffset(value) => header.begin_phy_offset = value,
                IndexHeaderUpdate::SetBeginTimestamp(value) => header.begin_timestamp = value,
                IndexHeaderUpdate::IncrementHashSlotCount => header.hash_slot_count += 1,
                IndexHeaderUpdate::IncrementIndexCount => header.index_count += 1,
                IndexHeaderUpdate::SetEndPhyOffset(value) => header.end_phy_offset = value,
                IndexHeaderUpdate::SetEndTimestamp(value) => header.end_timestamp = value,
            }
        }
        outcome == IndexPutOutcome::Written
    }

    fn flushed(&self) -> String {
        let mut data = self.data.borrow().clone();
        data[..INDEX_HEADER_SIZE].copy_from_slice(&self.header.borrow().encode());
        data.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn select(&self, found: &mut Vec<i64>, key: &str, most: usize, begin: i64, end: i64) {
        query_index_offsets(
            self.snapshot(),
            hash(key),
            most,
            begin,
            end,
            found,
            |at| self.bytes::<4>(at),
            |at| self.bytes::<20>(at),
        );
    }
}

impl IndexServiceFile for File {
    fn file_size(&self) -> usize {
        self.data.borrow().len()
    }

    fn has_entries(&self) -> bool {
        self.header.borrow().index_count > 1
    }

    fn is_write_full(&self) -> bool {
        self.header.borrow().index_count >= self.places as i32
    }

    fn begin_timestamp(&self) -> i64 {
        self.header.borrow().begin_timestamp
    }

    fn end_timestamp(&self) -> i64 {
        self.header.borrow().end_timestamp
    }

    fn end_phy_offset(&self) -> i64 {
        self.header.borrow().end_phy_offset
    }

    fn is_time_matched(&self, begin: i64, end: i64) -> bool {
        is_index_time_matched(self.begin_timestamp(), self.end_timestamp(), begin, end)
    }

    fn select_phy_offsets(
        &self,
        offsets: &mut Vec<i64>,
        key: &str,
        max_num: usize,
        begin: i64,
        end: i64,
    ) {
        self.select(offsets, key, max_num, begin, end);
    }
}

fn main() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        // A text with an unpaired surrogate is none in Rust: serde_json refuses the line.
        let answer = match serde_json::from_str::<Value>(&line) {
            Ok(request) => {
                let told = std::panic::catch_unwind(|| answer(&request));
                let told = told.unwrap_or_else(|_| Err("panic; see standard error".into()));
                with_id(request["id"].clone(), told)
            }
            Err(error) => {
                let told = json!({"unsupported": format!("no text of Rust: {error}")});
                with_id(id_of(&line), Ok(told))
            }
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn with_id(id: Value, told: Answer) -> Value {
    let mut fields = Map::new();
    fields.insert("id".into(), id);
    match told {
        Ok(Value::Object(answer)) => fields.extend(answer),
        Ok(other) => drop(fields.insert("error".into(), other)),
        Err(error) => drop(fields.insert("error".into(), json!(error))),
    }
    Value::Object(fields)
}

/// The number stands first in a line that is not JSON for Rust.
fn id_of(line: &str) -> Value {
    let digits: String = line.chars().skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit).collect();
    digits.parse::<u64>().map_or(Value::Null, Value::from)
}

fn answer(request: &Value) -> Answer {
    match text(request, "op") {
        "hello" => Ok(json!({
            "protocol": 1,
            "name": "rocketmq-rust (rocketmq-store-local)",
            "version": "1.0.0",
            "classes": ["strict_writer", "strict_reader", "broker_faithful_reader",
                "broker_faithful_loader"],
            "editions": ["5.4"],
            "operations": ["hash", "put", "read", "select", "time_match", "query", "expire",
                "build", "message_keys"],
        })),
        "hash" => Ok(json!({"key_hash": hash(text(request, "key"))})),
        "put" => put(request),
        "read" => read(request),
        "select" => {
            let mut found = Vec::new();
            let most = number(request, "max_num").max(0) as usize;
            let (begin, end) = (number(request, "begin"), number(request, "end"));
            stored(request)?.select(&mut found, text(request, "key"), most, begin, end);
            Ok(json!({"phy_offsets": found}))
        }
        "time_match" => {
            let matched = stored(request)?
                .is_time_matched(number(request, "begin"), number(request, "end"));
            Ok(json!({"matched": matched}))
        }
        "query" => query(request),
        "expire" => expire(request),
        "build" => build(request),
        "message_keys" => {
            let message = &request["message"];
            let flag = number(message, "sys_flag");
            Ok(json!({"index_keys": if flag & ROLLBACK == ROLLBACK { vec![] } else { keys(message) }}))
        }
        other => Ok(json!({"unsupported": other})),
    }
}

fn put(request: &Value) -> Answer {
    let (slots, places) = (size(request, "hash_slot_num"), size(request, "index_num"));
    if index_file_total_size(slots, places).is_some_and(|size| size > i32::MAX as usize) {
        return Ok(json!({"results": [], "hex": "", "note": "accepted; too large to send"}));
    }
    let whole = index_file_total_size(slots, places).unwrap_or(usize::MAX);
    if request["resume_hex"].as_str().is_some_and(|hex| hex.len() / 2 > whole) {
        return Ok(json!({"unsupported": "the crate is given what is mapped, and no more"}));
    }
    let made = match request["resume_hex"].as_str() {
        Some(hex) => File::load("", slots, places, hex),
        None => {
            let offset = number(request, "prev_end_phy_offset");
            File::create(slots, places, offset, number(request, "prev_end_timestamp"))
        }
    };
    let mut file = match made {
        Ok(file) => file,
        Err(error) => return Ok(json!({"reject": {"found": error}})),
    };
    let mut results = Vec::new();
    for put in list(request, "puts") {
        if put.get("reopen").is_some() {
            file = File::load("", slots, places, &file.flushed())?;
        } else {
            let (offset, time) = (number(put, "phy_offset"), number(put, "store_timestamp"));
            results.push(file.put(text(put, "key"), offset, time));
        }
    }
    Ok(json!({"results": results, "hex": file.flushed()}))
}

fn read(request: &Value) -> Answer {
    if request["hash_slot_num"].is_null() {
        return Ok(json!({"unsupported": "the codec takes the geometry from its caller"}));
    }
    let file = stored(request)?;
    let header = file.header.borrow();
    let count = (header.index_count as usize).min(file.places);
    let entries: Vec<Value> = (1..count)
        .map(|position| {
            let at = index_entry_position(file.slots, position).unwrap();
            let entry = IndexEntry::decode(&file.bytes::<20>(at).unwrap()).unwrap();
            let after = if position == 1 { 0 } else { i64::from(entry.time_diff) * 1000 };
            json!({
                "position": position, "key_hash": entry.key_hash,
                "phy_offset": entry.physical_offset, "time_diff": entry.time_diff,
                "prev_position": entry.previous_index,
                "slot": entry.key_hash as usize % file.slots,
                "store_timestamp": header.begin_timestamp + after,
            })
        })
        .collect();
    let slots: Vec<i32> = (0..file.slots)
        .map(|slot| {
            let at = hash_slot_position(slot).unwrap();
            IndexSlot::decode(&file.bytes::<4>(at).unwrap()).unwrap().0
        })
        .collect();
    Ok(json!({
        "header": {
            "begin_timestamp": header.begin_timestamp, "end_timestamp": header.end_timestamp,
            "begin_phy_offset": header.begin_phy_offset, "end_phy_offset": header.end_phy_offset,
            "hash_slot_count": header.hash_slot_count, "index_count": header.index_count,
        },
        "slots": slots,
        "entries": entries,
    }))
}

/// The files of a directory that needs no loader, which the crate does not have.
fn directory(request: &Value) -> Result<Result<Vec<File>, Value>, String> {
    let (slots, places) = (size(request, "hash_slot_num"), size(request, "index_num"));
    let mut items = list(request, "directory").clone();
    items.sort_by(|a, b| text(a, "name").cmp(text(b, "name")));
    let is_plain = |item: &Value| {
        let name = text(item, "name");
        item["type"] == "file" && name.len() == 17 && name.bytes().all(|c| c.is_ascii_digit())
    };
    if request["last_exit_ok"] != json!(true) || !items.iter().all(is_plain) {
        return Ok(Err(json!({"unsupported": "the crate has no loader of directories"})));
    }
    let load = |item: &Value| File::load(text(item, "name"), slots, places, text(item, "hex"));
    Ok(Ok(items.iter().map(load).collect::<Result<_, _>>()?))
}

fn query(request: &Value) -> Answer {
    let files = match directory(request)? {
        Ok(files) => files,
        Err(unsupported) => return Ok(unsupported),
    };
    let most = number(request, "max_num").clamp(0, MAX_MSGS_NUM_BATCH) as usize;
    let kind = request["index_type"].as_str().filter(|kind| [TAG_TYPE, UNIQUE_TYPE].contains(kind));
    let mut key = String::new();
    let key = build_index_key_into(&mut key, text(request, "topic"), text(request, "key"), kind);
    let (begin, end) = (number(request, "begin"), number(request, "end"));
    let found = query_index_files(&files, key, most, begin, end);
    Ok(json!({
        "phy_offsets": found.get_phy_offsets(),
        "index_last_update_timestamp": found.get_index_last_update_timestamp(),
        "index_last_update_phyoffset": found.get_index_last_update_phyoffset(),
    }))
}

fn expire(request: &Value) -> Answer {
    let files = match directory(request)? {
        Ok(files) => files,
        Err(unsupported) => return Ok(unsupported),
    };
    let offset = number(request, "min_phy_offset").max(0) as u64;
    let gone = expired_index_file_count(&files, offset);
    let writable = request["writable"] == json!(true);
    let sizes: Map<String, Value> = files[if writable { gone } else { 0 }..]
        .iter()
        .map(|file| (file.name.clone(), json!(file.file_size())))
        .collect();
    let loaded: Vec<&String> = files[gone..].iter().map(|file| &file.name).collect();
    Ok(json!({"loaded": loaded, "directory": sizes}))
}

fn build(request: &Value) -> Answer {
    let (slots, places) = (size(request, "hash_slot_num"), size(request, "index_num"));
    let files: RefCell<Vec<std::sync::Arc<File>>> = RefCell::default();
    let checkpoint = RefCell::new(0u64);
    let last = || -> Option<std::sync::Arc<File>> {
        let plan = plan_last_index_file(&files.borrow());
        if let Some(file) = plan.reusable {
            return Some(file);
        }
        let (offset, time) = (plan.previous_end_phy_offset, plan.previous_end_timestamp);
        let file = std::sync::Arc::new(File::create(slots, places, offset, time).ok()?);
        files.borrow_mut().push(file.clone());
        if let Some(time) = plan.previous_full.and_then(|full| index_flush_checkpoint_timestamp(&full)) {
            *checkpoint.borrow_mut() = time;
        }
        Some(file)
    };
    for message in list(request, "messages") {
        let offset = number(message, "phy_offset");
        let time = number(message, "store_timestamp");
        let plan = plan_index_build(
            number(message, "sys_flag") & ROLLBACK == ROLLBACK,
            has_indexable_keys(unique(message), words(message), tags(message), KEY_SEPARATOR),
            offset,
            100,
            max_index_dispatch_offset(&files.borrow()),
        );
        if plan != IndexBuildPreflight::Build {
            continue;
        }
        let Some(mut file) = last() else { return Err("no file".into()) };
        if offset < file.end_phy_offset() {
            continue;
        }
        for key in keys(message) {
            let put = drive_index_service_put(file, |file| file.put(&key, offset, time), |_| last());
            file = put.ok_or("no file")?;
        }
    }
    let files = files.into_inner();
    Ok(json!({
        "hex": files.iter().map(|file| file.flushed()).collect::<Vec<_>>(),
        "index_msg_timestamp": *checkpoint.borrow(),
    }))
}

fn keys(message: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut buffer = String::new();
    drive_index_build_keys(
        unique(message),
        words(message),
        tags(message),
        KEY_SEPARATOR,
        UNIQUE_TYPE,
        TAG_TYPE,
        |_, key, kind| {
            found.push(build_index_key_into(&mut buffer, text(message, "topic"), key, kind).into());
            true
        },
    );
    found
}

fn unique(message: &Value) -> Option<&str> {
    message["unique_key"].as_str()
}

fn words(message: &Value) -> &str {
    message["keys"].as_str().unwrap_or("")
}

fn tags(message: &Value) -> Option<&str> {
    message["tags"].as_str().filter(|tags| !tags.is_empty())
}

fn hash(key: &str) -> i32 {
    normalize_index_key_hash(JavaStringHasher::hash_str(key))
}

fn stored(request: &Value) -> Result<File, String> {
    let file = &request["file"];
    let (slots, places) = (size(request, "hash_slot_num"), size(request, "index_num"));
    File::load(text(file, "name"), slots, places, text(file, "hex"))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn number(value: &Value, name: &str) -> i64 {
    value[name].as_i64().unwrap_or_default()
}

fn size(value: &Value, name: &str) -> usize {
    number(value, name).max(0) as usize
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().expect(name)
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|error| error.to_string()))
        .collect()
}
