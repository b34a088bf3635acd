//! Compares the reader with Nomad's own, on Nomad's examples and on thousands of generated files.
//!
//! Needs a program around Nomad's reader, which is not part of this repository. It reads lines
//! `{"file": …, "text": …}` and writes lines `{"ok": …, "error": …, "volume": …}`, with the volume as
//! `nomad volume create` sends it. Run with
//!
//! ```text
//! NOMAD_CSI_ORACLE=PROGRAM NOMAD_CSI_ORACLE_CORPUS=DIRECTORY \
//!   cargo test --test suite spec_oracle -- --ignored --nocapture
//! ```
//!
//! A file that both accept must mean the same, field by field. A file that only Nomad accepts must
//! lose something in Nomad, or can never work. This reader may accept files that Nomad refuses.
#![expect(clippy::print_stdout, reason = "a run reports its counts")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nomad_csi_model::diagnostic::{Code, Diagnostics, Severity, SourceMap};
use nomad_csi_model::{ExternalId, Topology, UnresolvedRequest};
use nomad_csi_spec::{self as spec, Defaults, Syntax};
use serde_json::{Map, Value, json};

/// Codes of files that Nomad accepts: it loses something, or no plugin could use the volume.
const LOST_OR_USELESS: &[Code] = &[
    Code::SpecUnknownField,
    Code::SpecDuplicateField,
    Code::SpecMissingField,
    Code::SpecUnexpectedLabel,
    Code::SpecServerField,
    Code::SpecEmptyTopology,
    Code::SpecUnknownAccessMode,
    Code::SpecUnknownAttachmentMode,
    Code::SpecMixedForms,
    Code::SpecNoVolume,
];

/// Returns whether Nomad loses something in a file that this reader refuses with a code.
fn is_loss(code: Code, text: &str, volume: &Value) -> bool {
    let capacity = |key: &str| volume[key].as_i64().unwrap_or_default();
    let capacities = [capacity("RequestedCapacityMin"), capacity("RequestedCapacityMax")];
    match code {
        // Nomad ignores a list or a block in place of a size; 8 EiB and more become negative.
        Code::SpecWrongType | Code::SpecInvalidSize => capacities.iter().any(|size| *size <= 0),
        // A lone surrogate becomes a replacement character.
        Code::SpecSyntax if text.contains("\\ud8") && !Syntax::looks_like_json(text) => true,
        // Nomad ignores everything after a missing comma and after the object, and accepts
        // truncated files.
        Code::SpecSyntax => {
            let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            match values.next() {
                Some(Ok(_)) => !text[values.byte_offset()..].trim().is_empty(),
                Some(Err(error)) => error.is_eof() || volume["ID"] == "",
                None => false,
            }
        }
        code => LOST_OR_USELESS.contains(&code),
    }
}

struct OracleResult {
    name: String,
    text: String,
    nomad: Result<Value, String>,
}

/// Reads each text with Nomad's reader.
fn read_with_nomad(texts: Vec<(String, String)>) -> Vec<OracleResult> {
    let program = std::env::var_os("NOMAD_CSI_ORACLE").expect("NOMAD_CSI_ORACLE names the program");
    let mut child = Command::new(program)
        .arg("-stdin-jsonl")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("its input is piped");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
    let answers = texts
        .into_iter()
        .map(|(name, text)| {
            writeln!(stdin, "{}", json!({ "file": name, "text": text }))
                .expect("the program reads");
            let line = lines.next().expect("the program responds").expect("the response is UTF-8");
            let mut answer: Value = serde_json::from_str(&line).expect("the response is JSON");
            let nomad = if answer["ok"] == Value::Bool(true) {
                Ok(answer["volume"].take())
            } else {
                Err(answer["error"].as_str().unwrap_or_default().to_owned())
            };
            OracleResult { name, text, nomad }
        })
        .collect();
    drop(stdin);
    child.wait().expect("the program exits");
    answers
}

/// Reads a text with this reader: the request, or the error codes.
fn read(text: &str) -> Result<UnresolvedRequest, Vec<Code>> {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("spec", text);
    let defaults = Defaults { namespace: nomad_csi_model::Namespace::new("-none-") };
    let specs = spec::parse(&mut sources, source, Syntax::Hcl, &defaults, &mut diagnostics);
    let errors = diagnostics.iter().filter(|one| one.severity == Severity::Error);
    let codes: Vec<Code> = errors.map(|one| one.code).collect();
    match (specs.into_iter().next(), codes.is_empty()) {
        (Some(spec), true) => Ok(spec.request),
        _ => Err(codes),
    }
}

/// Converts a request to Nomad's JSON, for comparison.
fn nomad_json(request: &UnresolvedRequest) -> Value {
    let text = |text: Option<&str>| Value::from(text.unwrap_or_default());
    let places = |places: &[Topology]| -> Value {
        if places.is_empty() {
            return Value::Null;
        }
        places.iter().map(|place| json!({ "Segments": place.segments })).collect()
    };
    let namespace = Some(request.namespace.as_str()).filter(|namespace| *namespace != "-none-");
    json!({
        "ID": request.id.as_str(),
        "Name": text(request.name.as_deref()),
        "Namespace": text(namespace),
        "ExternalID": text(request.external_id.as_ref().map(ExternalId::as_str)),
        "PluginID": request.plugin_id.as_str(),
        "CloneID": text(request.clone_id.as_deref()),
        "SnapshotID": text(request.snapshot_id.as_deref()),
        "RequestedCapacityMin": request.capacity.min.to_wire(),
        "RequestedCapacityMax": request.capacity.max.to_wire(),
        "RequestedCapabilities": request.capabilities.iter().map(|capability| json!({
            "AccessMode": capability.access_mode.as_str(),
            "AttachmentMode": capability.attachment_mode.as_str(),
        })).collect::<Value>(),
        "MountOptions": request.mount_options.as_ref().map(|options| json!({
            "FSType": options.fs_type,
            "MountFlags": options.mount_flags,
        })),
        "RequestedTopologies": request.topology_request.as_ref().map(|topologies| json!({
            "Required": places(&topologies.required),
            "Preferred": places(&topologies.preferred),
        })),
        "Secrets": request.secrets.as_ref().map(|secrets| secrets.iter().map(|(key, from)| (key, from.literal())).collect::<BTreeMap<_, _>>()),
        "Parameters": request.parameters,
        "Context": request.context,
    })
}

/// Converts empty lists and objects to null.
fn normalized(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => items.iter().map(normalized).collect(),
        Value::Object(fields) if fields.is_empty() => Value::Null,
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), normalized(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Returns the fields that differ.
fn differences(own: &Value, nomad: &Value) -> Vec<String> {
    let fields = own.as_object().expect("an object").iter();
    // Nomad reads sizes as floating-point numbers, exact up to 2^53.
    let rounded = |a: &Value, b: &Value| match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a > 1 << 53 && a.abs_diff(b) < 2048,
        _ => false,
    };
    let differ = fields.filter(|(key, value)| {
        let other = &nomad[key.as_str()];
        normalized(value) != normalized(other) && !rounded(value, other)
    });
    differ
        .map(|(key, value)| format!("{key}: this reader {value}, Nomad {}", nomad[key.as_str()]))
        .collect()
}

#[derive(Default)]
struct Tally {
    same: usize,
    both_refuse: usize,
    /// By the first code.
    only_nomad_accepts: BTreeMap<&'static str, usize>,
    only_nomad_refuses: Vec<String>,
    unexplained: Vec<String>,
}

/// Returns whether Nomad lost a part of the topologies.
fn nomad_lost_topologies(differences: &[String]) -> bool {
    differences.iter().all(|difference| difference.starts_with("RequestedTopologies"))
}

fn compare(answers: &[OracleResult], keep_topologies: bool) -> Tally {
    let mut tally = Tally::default();
    for answer in answers {
        let describe = |what: String| format!("{}: {what}\n{}", answer.name, answer.text);
        match (read(&answer.text), &answer.nomad) {
            (Ok(request), Ok(volume)) => {
                let differences = differences(&nomad_json(&request), volume);
                if differences.is_empty() {
                    tally.same += 1;
                } else if keep_topologies && nomad_lost_topologies(&differences) {
                    *tally.only_nomad_accepts.entry("kept topologies").or_default() += 1;
                } else {
                    tally.unexplained.push(describe(differences.join("; ")));
                }
            }
            (Err(codes), Ok(volume)) => {
                let kept = |code: &&Code| !is_loss(**code, &answer.text, volume);
                match codes.iter().find(kept) {
                    Some(code) => tally.unexplained.push(describe(format!("refused: {code}"))),
                    None => {
                        *tally.only_nomad_accepts.entry(codes[0].as_str()).or_default() += 1;
                        println!("  refused by this reader: {}: {codes:?}", answer.name);
                    }
                }
            }
            (Ok(_), Err(error)) => {
                tally.only_nomad_refuses.push(format!("{}: {error}", answer.name));
            }
            (Err(_), Err(_)) => tally.both_refuse += 1,
        }
    }
    tally
}

fn report(tally: &Tally) {
    let counts = format!(
        "same {}, refused by both {}, refused by this reader {:?}, refused by Nomad {}, unexplained {}",
        tally.same,
        tally.both_refuse,
        tally.only_nomad_accepts,
        tally.only_nomad_refuses.len(),
        tally.unexplained.len()
    );
    println!("{counts}");
    for line in tally.only_nomad_refuses.iter().take(60) {
        println!("  refused by Nomad: {line}");
    }
    let first: Vec<_> = tally.unexplained.iter().take(40).map(String::as_str).collect();
    assert!(first.is_empty(), "{counts}\n\n{}", first.join("\n\n"));
}

#[test]
#[ignore = "needs a program around Nomad's own reader"]
fn nomads_examples_mean_the_same_as_in_nomad() {
    let directory = std::env::var_os("NOMAD_CSI_ORACLE_CORPUS").expect("NOMAD_CSI_ORACLE_CORPUS");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the corpus is a directory")
        .map(|entry| entry.expect("the corpus is readable").path())
        .collect();
    paths.sort();
    let texts = paths.iter().filter_map(|path| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some((name, std::fs::read_to_string(path).ok()?))
    });
    report(&compare(&read_with_nomad(texts.collect()), true));
}

#[test]
#[ignore = "needs a program around Nomad's own reader"]
fn generated_files_mean_the_same_as_in_nomad() {
    let seeds = std::env::var("NOMAD_CSI_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let mut texts = vec![];
    for seed in 1..=seeds.unwrap_or(4000) {
        texts.push((format!("seed {seed}.hcl"), Generator::new(seed).hcl()));
        texts.push((format!("seed {seed}.json"), Generator::new(seed).json()));
    }
    report(&compare(&read_with_nomad(texts), true));
}

/// Generates random specifications, mostly well-formed, with all of HCL1's spellings.
struct Generator {
    state: u64,
}

const WORDS: &[&str] = &[
    "database", "vol-1", "a b", "日本", "x/y", "${x}", "a${b}c", "$${x}", "%{if}", "1", "true",
    "a.b", "", "ro", "noatime", "zone-1", "#no", "//no", "/*no*/", "{", "}", "[", "=", ",", "'",
];
const ESCAPES: &[&str] = &[
    "\\n",
    "\\t",
    "\\\\",
    "\\\"",
    "\\x41",
    "\\101",
    "\\u00e4",
    "\\U0001F980",
    "\\a",
    "\\v",
    "\\r",
];
const NUMBERS: &[&str] = &[
    "0", "7", "007", "010", "0x1F", "-5", "1.5", "1.10", ".5", "5.", "1e3", "1E-2", "-0", "0.0",
    "1e21",
];
const MODES: &[&str] = &[
    "single-node-reader-only",
    "single-node-writer",
    "multi-node-reader-only",
    "multi-node-single-writer",
    "multi-node-multi-writer",
];
const SIZES: &[&str] =
    &["\"10GiB\"", "\"1,000 MB\"", "\"1.5GiB\"", "\"20G\"", "1024", "1.5", "\"\"", "010"];

impl Generator {
    fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap_or_default() % limit
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    /// White space between two tokens, comments included.
    fn gap(&mut self) -> &'static str {
        match self.below(12) {
            0 => "\t",
            1 => " /* a comment */ ",
            2 => "  ",
            _ => " ",
        }
    }

    /// Returns the end of an item.
    fn end(&mut self) -> &'static str {
        match self.below(10) {
            0 => ", ",
            1 => " ",
            2 => " # comment\n",
            3 => " // comment\n",
            4 => "\r\n",
            _ => "\n",
        }
    }

    fn quoted(&mut self) -> String {
        let mut text = self.pick(WORDS).to_owned();
        if self.chance(25) {
            text.push_str(self.pick(ESCAPES));
        }
        if self.chance(15) {
            text.push_str(self.pick(WORDS));
        }
        format!("\"{text}\"")
    }

    fn heredoc(&mut self) -> String {
        let dash = if self.chance(50) { "-" } else { "" };
        let [first, second, last] =
            [self.below(3), self.below(3), self.below(3)].map(|n| "  ".repeat(n));
        let empty = if self.chance(20) { "\n" } else { "" };
        format!("<<{dash}EOF\n{first}one ${{x}} \\n\n{empty}{second}two\n{last}EOF\n")
    }

    fn scalar(&mut self) -> String {
        match self.below(12) {
            0 => self.pick(NUMBERS).to_owned(),
            1 => self.pick(&["true", "false"]).to_owned(),
            2 => self.heredoc(),
            _ => self.quoted(),
        }
    }

    fn key(&mut self, key: &str, any_case: bool) -> String {
        let key = match self.below(12) {
            0 if any_case => key.to_uppercase(),
            _ => key.to_owned(),
        };
        if self.chance(10) { format!("\"{key}\"") } else { key }
    }

    fn attribute(&mut self, key: &str, value: &str, any_case: bool) -> String {
        let key = self.key(key, any_case);
        let (before, after) = (self.gap(), self.gap());
        let end = if value.ends_with('\n') { "" } else { self.end() };
        format!("{key}{before}={after}{value}{end}")
    }

    fn block(&mut self, key: &str, inside: &str, any_case: bool) -> String {
        let key = self.key(key, any_case);
        let assign = if self.chance(20) { "= " } else { "" };
        let open = if self.chance(50) { "{\n" } else { "{ " };
        let end = self.end();
        format!("{key} {assign}{open}{inside}}}{end}")
    }

    fn map(&mut self) -> String {
        let keys = ["one", "two.x", "\"a/b\"", "three-3", "\"${k}\"", "_4"];
        let mut text = String::new();
        for key in keys.iter().take(self.below(5)) {
            let value = self.scalar();
            let (before, end) = (self.gap(), if value.ends_with('\n') { "" } else { self.end() });
            text.extend([key, before, "= ", &value, end]);
        }
        text
    }

    fn topologies(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.below(3) {
            let inside =
                format!("zone = {}{}rack = {}{}", self.quoted(), self.end(), self.scalar(), "\n");
            let mut segments = self.block("segments", &inside, false);
            if self.chance(15) {
                segments.push_str(&self.block("segments", "zone = \"again\"\n", false));
            }
            text.push_str(&self.block("topology", &segments, false));
        }
        text
    }

    fn capability(&mut self) -> String {
        let access = format!("\"{}\"", self.pick(MODES));
        let attachment = format!("\"{}\"", self.pick(&["file-system", "block-device"]));
        let mut inside = self.attribute("access_mode", &access, false);
        inside.push_str(&self.attribute("attachment_mode", &attachment, false));
        self.block("capability", &inside, true)
    }

    fn hcl(&mut self) -> String {
        let mut items = vec![self.attribute("type", "\"csi\"", true)];
        for key in ["id", "plugin_id"] {
            let value = format!("\"{key}-1\"");
            let value = if self.chance(70) { value } else { self.scalar() };
            items.push(self.attribute(key, &value, true));
        }
        for key in ["name", "namespace", "external_id", "snapshot_id", "clone_id"] {
            if self.chance(40) {
                let value = self.scalar();
                items.push(self.attribute(key, &value, true));
            }
        }
        for key in ["capacity_min", "capacity_max"] {
            if self.chance(50) {
                let value = self.pick(SIZES);
                items.push(self.attribute(key, value, true));
            }
        }
        for _ in 0..1 + self.below(2) {
            items.push(self.capability());
        }
        if self.chance(40) {
            let mut inside = String::new();
            if self.chance(70) {
                let value = self.scalar();
                inside.push_str(&self.attribute("fs_type", &value, false));
            }
            if self.chance(70) {
                let comma = if self.chance(20) { "," } else { "" };
                let flags = format!("[{}, {}{comma}]", self.quoted(), self.quoted());
                inside.push_str(&self.attribute("mount_flags", &flags, false));
            }
            items.push(self.block("mount_options", &inside, true));
        }
        if self.chance(40) {
            let mut inside = String::new();
            for key in ["required", "preferred"] {
                if self.chance(60) {
                    let topologies = self.topologies();
                    inside.push_str(&self.block(key, &topologies, false));
                }
            }
            items.push(self.block("topology_request", &inside, true));
        }
        for key in ["secrets", "parameters", "context"] {
            if self.chance(50) {
                let map = self.map();
                items.push(self.block(key, &map, true));
            }
        }
        self.damage(&mut items);
        items.concat()
    }

    /// Sometimes adds a mistake after which Nomad drops something.
    fn damage(&mut self, items: &mut Vec<String>) {
        let at = self.below(items.len());
        match self.below(30) {
            0 => items[at] = items[at].replacen('_', "", 1),
            1 => items.push(items[at].clone()),
            2 => items[at] = items[at].replacen('"', "", 1),
            3 => items[at] = items[at].replacen(" {", " \"label\" {", 1),
            4 => items.push("Capacity = 99\n".to_owned()),
            5 => items.swap(0, at),
            6 => items[at] = items[at].replacen('}', "", 1),
            _ => {}
        }
    }

    fn json_text(&mut self) -> String {
        let word = self.pick(WORDS);
        let escape = match self.below(40) {
            0 => self.pick(&["\\ud83d\\ude00", "\\/"]),
            1..=3 => self.pick(&["\\x41", "\\101", "\\v", "\\a", "\\U0001F980"]),
            4..=9 => self.pick(&["\\n", "\\\\", "\\\"", "\\u00e4", "\\t"]),
            _ => "",
        };
        format!("\"{word}{escape}\"")
    }

    fn json_scalar(&mut self) -> String {
        match self.below(10) {
            0 => self.pick(&["0", "7", "-5", "1.5", "1.10", "1e3", "007"]).to_owned(),
            1 => self.pick(&["true", "false", "null"]).to_owned(),
            _ => self.json_text(),
        }
    }

    fn json_map(&mut self) -> String {
        let keys = ["one", "two.x", "a/b", "${k}"];
        let mut pairs = vec![];
        for key in keys.iter().take(self.below(4)) {
            pairs.push(format!("\"{key}\": {}", self.json_scalar()));
        }
        let map = format!("{{{}}}", pairs.join(", "));
        if self.chance(30) { format!("[{map}]") } else { map }
    }

    fn json_topologies(&mut self) -> String {
        let place = |generator: &mut Self| {
            format!("{{\"segments\": {{\"zone\": {}}}}}", generator.json_scalar())
        };
        let (first, second) = (place(self), place(self));
        match self.below(5) {
            0 => format!("[{{\"topology\": {first}}}, {{\"topology\": {second}}}]"),
            1 => format!("{{\"topology\": {first}}}"),
            2 => format!("{{\"topology\": [{first}, {second}]}}"),
            3 => format!("[{{\"topology\": {first}}}]"),
            _ => format!("[{{\"topology\": [{first}, {second}]}}]"),
        }
    }

    fn json(&mut self) -> String {
        let mut items = vec![
            "\"type\": \"csi\"".to_owned(),
            "\"id\": \"a\"".to_owned(),
            "\"plugin_id\": \"p\"".to_owned(),
        ];
        for key in ["name", "namespace", "external_id", "snapshot_id", "clone_id", "capacity_min"] {
            if self.chance(30) {
                let value = if key == "capacity_min" {
                    self.pick(&["\"10GiB\"", "1024", "null", "1.5"]).to_owned()
                } else {
                    self.json_scalar()
                };
                let key = self.key(key, true).replace('"', "");
                items.push(format!("\"{key}\": {value}"));
            }
        }
        let capability = format!(
            "{{\"access_mode\": \"{}\", \"attachment_mode\": \"file-system\"}}",
            self.pick(MODES)
        );
        items.push(match self.below(4) {
            0 => format!("\"capability\": {capability}"),
            1 => format!("\"capability\": [{capability}, {{\"access_mode\": \"single-node-writer\", \"attachment_mode\": \"block-device\"}}]"),
            2 => format!("\"capability\": {capability}, \"capability\": [{capability}]"),
            _ => format!("\"capability\": [{capability},]"),
        });
        if self.chance(40) {
            let comma = self.pick(&[", ", " ", ", , "]);
            let options = format!(
                "{{\"fs_type\": {}, \"mount_flags\": [{}{comma}{}]}}",
                self.json_scalar(),
                self.json_text(),
                self.json_text()
            );
            items.push(format!("\"mount_options\": {options}"));
        }
        if self.chance(40) {
            items.push(format!(
                "\"topology_request\": {{\"required\": {}}}",
                self.json_topologies()
            ));
        }
        for key in ["secrets", "parameters", "context"] {
            if self.chance(40) {
                items.push(format!("\"{key}\": {}", self.json_map()));
            }
        }
        let separator = if self.chance(5) { " " } else { ",\n\t" };
        let trailing = self.pick(&["", "", "", ","]);
        format!("{{{}{trailing}}}\n", items.join(separator))
    }
}
