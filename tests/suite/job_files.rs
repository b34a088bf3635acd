//! The job files of `tests/data/jobs`: our verdict, and Nomad's.
//!
//! `accepted` and `refused` hold files on which both agree, `differs` those on which they do not, with
//! the reason. `NOMAD_CSI_TEST_NOMAD=/path/to/nomad cargo test --test suite nomads_verdict -- --ignored`
//! asks a `nomad` binary of version 2.0.6, which needs no server.

use std::path::{Path, PathBuf};
use std::process::Command;

use nomad_csi_model::diagnostic::{Diagnostics, Severity, SourceMap};
use nomad_csi_model::{Job, Namespace};
use nomad_csi_spec::job::{JobFile, check, parse_job};
use nomad_csi_spec::{Defaults, Syntax};
use nomad_csi_wire::{JobDocument, decode_value, job_from_wire};
use serde_json::Value;

/// A job file with its notes.
struct Case {
    path: PathBuf,
    text: String,
}

impl Case {
    /// The values of the comment lines that start with `key`.
    fn note(&self, key: &str) -> Option<&str> {
        let lines = self.text.lines().take_while(|line| line.starts_with("# "));
        let mut notes = lines.filter_map(|line| line.trim_start_matches("# ").strip_prefix(key));
        notes.next().map(str::trim)
    }

    fn is_accepted_by_nomad(&self) -> bool {
        let folder = self.path.parent().and_then(Path::file_name);
        match folder.and_then(|name| name.to_str()) {
            Some("accepted") => true,
            Some("refused") => false,
            _ => self.note("Nomad refuses").is_none(),
        }
    }
}

fn cases(folder: &str) -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/jobs");
    let entries = std::fs::read_dir(root.join(folder)).expect("the folder is readable");
    let paths = entries.map(|entry| entry.expect("the entry is readable").path());
    let mut cases: Vec<_> = paths
        .map(|path| Case {
            text: std::fs::read_to_string(&path).expect("the file is readable"),
            path,
        })
        .collect();
    cases.sort_by(|a, b| a.path.cmp(&b.path));
    cases
}

/// Returns what we read in a job file: the job, and our diagnostics.
fn read(text: &str) -> (Option<Job>, Diagnostics) {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("job.nomad.hcl", text);
    let defaults = Defaults::default();
    let parsed = parse_job(&mut sources, source, Syntax::Hcl, &defaults, &mut diagnostics);
    let Some(JobFile::Specification(parsed)) = parsed else {
        return (None, diagnostics);
    };
    check(&parsed, &mut diagnostics);
    (Some(parsed.job), diagnostics)
}

/// The codes of the errors in a job file, sorted.
fn errors(text: &str) -> Vec<String> {
    let (_, found) = read(text);
    let errors = found.iter().filter(|one| one.severity == Severity::Error);
    let mut codes: Vec<_> = errors.map(|one| one.code.to_string()).collect();
    codes.sort();
    codes
}

#[test]
fn accepted_job_files_have_no_error() {
    for case in cases("accepted") {
        assert_eq!(errors(&case.text), Vec::<String>::new(), "{}", case.path.display());
    }
}

/// Returns what `nomad job run -output` of Nomad 2.0.6 made of each accepted file, by the file's name.
fn recorded() -> serde_json::Map<String, Value> {
    let text = include_str!("../data/jobs/recorded-2.0.6.json");
    serde_json::from_str(text).expect("the recording is JSON")
}

impl Case {
    fn file_name(&self) -> String {
        let name = self.path.file_name().expect("the file has a name");
        name.to_string_lossy().into_owned()
    }
}

/// Nomad's own reader and ours understand the same job.
#[test]
fn accepted_job_files_are_the_jobs_that_nomad_reads() {
    let recorded = recorded();
    for case in cases("accepted") {
        let document: JobDocument =
            decode_value(&recorded[&case.file_name()]["Job"]).expect("the document is read");
        let (expected, problems) = job_from_wire(&document, &Namespace::default());
        assert_eq!(problems, [], "{}", case.path.display());
        assert_eq!(read(&case.text).0, Some(expected), "{}", case.path.display());
    }
    assert_eq!(recorded.len(), cases("accepted").len());
}

#[test]
fn refused_job_files_have_the_expected_errors() {
    for case in ["refused", "differs"].into_iter().flat_map(cases) {
        let expected = case.note("expect:").expect("the file names its errors");
        let mut expected: Vec<_> = expected.split_whitespace().collect();
        expected.sort_unstable();
        assert_eq!(errors(&case.text), expected, "{}", case.path.display());
    }
}

#[test]
fn every_error_in_a_job_file_has_a_place() {
    for case in ["refused", "differs"].into_iter().flat_map(cases) {
        for one in read(&case.text).1.iter() {
            assert!(!one.labels.is_empty(), "{}: {}", case.path.display(), one.message);
        }
    }
}

#[test]
fn the_documentation_gives_the_reason_of_every_difference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/jobs.md");
    let document = std::fs::read_to_string(path).expect("the document is readable");
    for case in cases("differs") {
        let reason = case.note("Reason:").expect("the file gives its reason");
        assert!(document.contains(reason), "docs/jobs.md lacks: {reason}");
    }
}

#[test]
#[ignore = "needs a `nomad` binary: NOMAD_CSI_TEST_NOMAD"]
fn nomads_verdict_is_as_recorded() {
    let nomad = std::env::var_os("NOMAD_CSI_TEST_NOMAD").expect("NOMAD_CSI_TEST_NOMAD is set");
    let recorded = recorded();
    let mut count = 0;
    for case in ["accepted", "refused", "differs"].into_iter().flat_map(cases) {
        let run = |arguments: &[&str]| {
            let mut command = Command::new(&nomad);
            command.args(arguments).arg(&case.path);
            let command = command.env("NOMAD_ADDR", "http://127.0.0.1:1");
            command.output().expect("the binary runs")
        };
        let output = run(&["job", "validate"]);
        let accepted = output.status.success();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(accepted, case.is_accepted_by_nomad(), "{}: {text}", case.path.display());
        count += 1;
        if let Some(expected) = recorded.get(&case.file_name()) {
            let output = run(&["job", "run", "-output"]);
            let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
            assert_eq!(&document, expected, "{}", case.path.display());
        }
    }
    assert!(count >= 40, "{count} files");
}
