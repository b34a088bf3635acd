//! Feeds a reader with mutated inputs: `cargo test --test fuzz -- TARGET SECONDS`.
//!
//! A panic, or an input that takes more than a second of processor time, is saved below `tests/fuzz/corpus/TARGET/`,
//! where the suite reads it from then on. Inputs are at most 4 KiB, so that a second is far too much.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for developers"
)]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[path = "../support/fuzz_targets.rs"]
mod fuzz_targets;

use fuzz_targets::{FuzzTarget, TARGETS};

const LARGEST: usize = 4096;
const SLOW: Duration = Duration::from_secs(1);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = arguments.first().and_then(|name| TARGETS.iter().find(|one| one.name == name));
    let (Some(target), Some(Ok(seconds))) = (named, arguments.get(1).map(|text| text.parse()))
    else {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        println!("usage: cargo test --test fuzz -- TARGET SECONDS\ntargets: {}", names.join(", "));
        return;
    };
    let found = fuzz(target, Duration::from_secs(seconds));
    assert!(found.is_empty(), "{} inputs were saved: {found:?}", found.len());
}

/// Runs a target for a time. Returns the files of the inputs that failed.
fn fuzz(target: &FuzzTarget, time: Duration) -> Vec<PathBuf> {
    let start = Instant::now();
    let mut random = Random(start.elapsed().subsec_nanos().into());
    random.0 ^= u64::from(std::process::id()) << 32 | 1;
    let mut pool: Vec<Vec<u8>> = target.seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    let mut found = vec![];
    let mut runs = 0_u64;
    while start.elapsed() < time && found.len() < 10 {
        let input = random.mutated(&pool, target.words);
        runs += 1;
        if fails(target, &input) {
            found.push(save(target.name, &input));
        }
        // Mutations of mutations reach further than those of the seeds.
        if random.below(100) == 0 {
            let at = random.below(200);
            match pool.get_mut(target.seeds.len() + at) {
                Some(place) => *place = input,
                None => pool.push(input),
            }
        }
    }
    println!("{}: {runs} inputs in {}s, {} failed", target.name, time.as_secs(), found.len());
    found
}

/// Returns whether a target panics or is slow.
fn fails(target: &FuzzTarget, input: &[u8]) -> bool {
    let before = processor_time();
    let panics = catch_unwind(|| (target.run)(input)).is_err();
    panics || processor_time() - before > SLOW
}

/// Returns how long this thread has run. Wall time would blame the input for a busy machine.
fn processor_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = statistics.split(' ').next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

fn save(target: &str, input: &[u8]) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    std::fs::create_dir_all(&directory).unwrap();
    let mut names = (0_u32..).map(|number| directory.join(format!("{number:03}")));
    let path = names.find(|path| !path.exists()).unwrap();
    std::fs::write(&path, input).unwrap();
    path
}

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (limit.max(1) as u64)).unwrap()
    }

    fn range(&mut self, length: usize) -> (usize, usize) {
        let start = self.below(length + 1);
        (start, start + self.below(length - start + 1).min(64))
    }

    fn mutated(&mut self, pool: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
        let mut input = pool[self.below(pool.len())].clone();
        for _ in 0..=self.below(8) {
            let (start, end) = self.range(input.len());
            match self.below(7) {
                0 => drop(input.splice(start..start, words[self.below(words.len())].bytes())),
                1 => drop(input.splice(start..end, words[self.below(words.len())].bytes())),
                2 => drop(input.drain(start..end)),
                3 => {
                    let copied = input[start..end].to_vec();
                    let times = self.below(20);
                    drop(input.splice(end..end, copied.repeat(times)));
                }
                4 => {
                    let other = &pool[self.below(pool.len())];
                    let (from, to) = self.range(other.len());
                    drop(input.splice(start..end, other[from..to].to_vec()));
                }
                5 => input.truncate(start),
                _ => {
                    if let Some(byte) = input.get_mut(start) {
                        *byte = u8::try_from(self.below(256)).unwrap();
                    }
                }
            }
            input.truncate(LARGEST);
        }
        input
    }
}
