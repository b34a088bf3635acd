//! Every input that a fuzz target once failed on, and the seeds and words of all targets.

use std::path::Path;

use crate::support::fuzz_targets::TARGETS;

#[test]
fn every_input_of_the_corpus_is_read_without_a_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    for target in TARGETS {
        let inputs = target.seeds.iter().chain(target.words);
        inputs.for_each(|input| (target.run)(input.as_bytes()));
        let Ok(files) = std::fs::read_dir(corpus.join(target.name)) else {
            continue;
        };
        for file in files {
            let input = std::fs::read(file.expect("an entry").path()).expect("a file");
            (target.run)(&input);
        }
    }
}
