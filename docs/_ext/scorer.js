// What the site's search shows first: pages for users, before the specification, the API and the
// pages on how the product is made, which name the same words more often.
const LATER = /^(spec\/|project\/|changelog|reference\/(rmqindex|pyspark_rmqindex)$)/;

var Scorer = {
  score: ([page, , , , score]) => (LATER.test(page) ? score / 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
