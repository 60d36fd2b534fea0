//! Loops over the index drivers of the Rust rewrite of RocketMQ, on a file in plain memory.
//!
//! The first line on standard input says what is to be done, with tabs between its words; what it
//! names is read, a file that is built is written once, to be compared, and the answer is `ready`.
//! Every further line is one round, answered with the nanoseconds of the loop alone and how many
//! entries it put or found.

use std::cell::RefCell;
use std::fs;
use std::io::{self, BufRead};
use std::time::Instant;

use rocketmq_model::common::hasher::string_hasher::JavaStringHasher;
use rocketmq_store_local::index::codec::{
    index_file_total_size, IndexHeaderRecord, INDEX_HEADER_SIZE,
};
use rocketmq_store_local::index::file::{
    drive_index_put, normalize_index_key_hash, query_index_offsets, IndexFileSnapshot,
    IndexHeaderUpdate, IndexPutOutcome,
};
use rocketmq_store_local::index::service::build_index_key_into;

fn main() -> io::Result<()> {
    let mut lines = io::stdin().lock().lines();
    let order = lines.next().expect("an order")?;
    let words: Vec<&str> = order.split('\t').collect();
    let number = |at: usize| -> usize { words[at].parse().expect("a number") };
    let (slots, places, topic) = (number(1), number(2), words[3]);
    let keys = strings(words[4], number(5))?;
    let mut run: Box<dyn FnMut() -> (u128, usize)> = match words[0] {
        "build" => {
            let (offsets, times) = (longs(words[6])?, longs(words[7])?);
            fs::write(words[8], build(slots, places, topic, &keys, &offsets, &times).1)?;
            Box::new(move || {
                (build(slots, places, topic, &keys, &offsets, &times).0, keys.len())
            })
        }
        "select" => {
            let (data, most) = (fs::read(words[6])?, number(7));
            Box::new(move || select(&data, slots, places, topic, &keys, most))
        }
        other => panic!("no such work: {other}"),
    };
    println!("ready");
    for line in lines {
        line?;
        let (nanos, count) = run();
        println!("{nanos} {count}");
    }
    Ok(())
}

/// Make strings of equal length out of the text in which they stand one after another.
fn strings(path: &str, length: usize) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(path)?;
    Ok((0..text.len()).step_by(length).map(|at| text[at..at + length].to_owned()).collect())
}

fn longs(path: &str) -> io::Result<Vec<i64>> {
    let bytes = fs::read(path)?;
    Ok(bytes.chunks_exact(8).map(|each| i64::from_le_bytes(each.try_into().unwrap())).collect())
}

fn hash(key: &str) -> i32 {
    normalize_index_key_hash(JavaStringHasher::hash_str(key))
}

fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn build(
    slots: usize, places: usize, topic: &str, keys: &[String], offsets: &[i64], times: &[i64],
) -> (u128, Vec<u8>) {
    let start = Instant::now();
    let data = RefCell::new(vec![0; index_file_total_size(slots, places).expect("a layout")]);
    let mut header = IndexHeaderRecord { index_count: 1, ..Default::default() };
    let mut buffer = String::new();
    for ((key, &offset), &time) in keys.iter().zip(offsets).zip(times) {
        let outcome = drive_index_put(
            IndexFileSnapshot::new(slots, places, header.index_count, header.begin_timestamp),
            hash(build_index_key_into(&mut buffer, topic, key, None)),
            offset,
            time,
            |at| bytes(&data.borrow(), at),
            |at, new| data.borrow_mut()[at..at + new.len()].copy_from_slice(new),
            |update| match update {
                IndexHeaderUpdate::SetBeginPhyOffset(value) => header.begin_phy_offset = value,
                IndexHeaderUpdate::SetBeginTimestamp(value) => header.begin_timestamp = value,
                IndexHeaderUpdate::IncrementHashSlotCount => header.hash_slot_count += 1,
                IndexHeaderUpdate::IncrementIndexCount => header.index_count += 1,
                IndexHeaderUpdate::SetEndPhyOffset(value) => header.end_phy_offset = value,
                IndexHeaderUpdate::SetEndTimestamp(value) => header.end_timestamp = value,
            },
        );
        assert_eq!(outcome, IndexPutOutcome::Written);
    }
    let mut data = data.into_inner();
    data[..INDEX_HEADER_SIZE].copy_from_slice(&header.encode());
    (start.elapsed().as_nanos(), data)
}

fn select(
    data: &[u8], slots: usize, places: usize, topic: &str, keys: &[String], most: usize,
) -> (u128, usize) {
    let header = IndexHeaderRecord::decode(data).expect("a header");
    let start = Instant::now();
    let file = IndexFileSnapshot::new(slots, places, header.index_count, header.begin_timestamp);
    let (mut buffer, mut found, mut hits) = (String::new(), Vec::with_capacity(most), 0);
    for key in keys {
        found.clear();
        let hash = hash(build_index_key_into(&mut buffer, topic, key, None));
        query_index_offsets(
            file, hash, most, 0, i64::MAX, &mut found, |at| bytes(data, at), |at| bytes(data, at),
        );
        hits += found.len();
    }
    (start.elapsed().as_nanos(), hits)
}
