//! The readers of input from outside, each as a function that must not panic.

use nomad_csi_client::files;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_model::{Bytes, Namespace};
use nomad_csi_plan::{LedgerKey, LedgerSet, SavedPlan, SetName, ShardName, StoredSet, StoredShard};
use nomad_csi_spec::job::{JobFile, check, parse_job, validate};
use nomad_csi_spec::{self as spec, Defaults, Purpose, Syntax};
use nomad_csi_wire::{
    self as wire, DecodeLimits, ExternalVolumesResponse, PluginDocument, SnapshotsResponse,
    VolumeDocument, VolumeStub, WriteRequest,
};

/// A reader of input from outside.
pub(crate) struct FuzzTarget {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
    /// Inputs to start from.
    pub(crate) seeds: &'static [&'static str],
    /// Words of the input language.
    pub(crate) words: &'static [&'static str],
}

const HCL_WORDS: &[&str] = &[
    "volume",
    "id",
    "= ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "${",
    "%{",
    "<<EOF\n",
    "<<-EOF\n",
    "\nEOF\n",
    "/*",
    "*/",
    "#",
    "//",
    "\\u",
    "\\U",
    "\\x",
    "0x",
    "env(\"A\")",
    "unknown",
    "secrets",
    "capability",
    "\n",
    ",",
    "-",
    "1e9",
    "\u{202e}",
    "(",
    ")",
    "?",
    ":",
    "for",
    "in",
    "=>",
    "...",
    "topology_request",
    "segments",
    "true",
    "null",
];
/// Words of the language, in every syntax of files.
const LANGUAGE_WORDS: &[&str] = &[
    "variable \"v\" {",
    "locals {",
    "class \"c\" {",
    "defaults {",
    "volume \"a\" {",
    "volume:\n  a:\n",
    "}",
    "\n",
    " = ",
    ": ",
    "count",
    "for_each",
    "enabled",
    "type",
    "default",
    "sensitive",
    "validation {",
    "condition",
    "error_message",
    "var.v",
    "local.l",
    "each.key",
    "each.value",
    "count.index",
    "volume.key",
    "${",
    "$${",
    "%{",
    "\"",
    "[for x in ",
    "{ for k, v in ",
    " : ",
    " => ",
    " if ",
    " ? ",
    "...",
    "[",
    "]",
    "(",
    ")",
    "{",
    ",",
    ".",
    "==",
    "&&",
    "!",
    "-",
    "%",
    "*",
    "merge(",
    "concat(",
    "flatten(",
    "range(100000)",
    "format(\"%s\", ",
    "matches(\"(a{9}){9}\", ",
    "jsonencode(",
    "map(object({ a = optional(string, \"x\") }))",
    "list(",
    "any",
    "null",
    "unknown",
    "1e308",
    "9223372036854775807",
    "<<EOF\n",
    "\nEOF\n",
    "&a ",
    "*a",
    "<<: ",
];
const JOB_WORDS: &[&str] = &[
    "job \"a\" {",
    "group \"g\" {",
    "task \"t\" {",
    "volume \"v\" {",
    "volume_mount {",
    "csi_plugin {",
    "config {",
    "env {",
    "template {",
    "constraint {",
    "}",
    "\n",
    " = ",
    "\"",
    "${NOMAD_ALLOC_INDEX}",
    "${var.x}",
    "$${",
    "%{ if a }",
    "var.x",
    "upper(\"x\")",
    "[",
    "]",
    "<<EOF\nx\nEOF\n",
    "dynamic \"volume\" {",
    "type = \"csi\"",
    "access_mode = \"single-node-writer\"",
    "regexp",
    "(a{100}){100}",
    "1e9",
    "-1",
    "30s",
    "null",
];
const YAML_WORDS: &[&str] = &[
    "volume:",
    "id: ",
    "- ",
    "? ",
    ": ",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "|\n",
    ">-\n",
    "---\n",
    "...\n",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "\\u",
    "#",
    "\t",
    "  ",
    "\n",
    "secrets",
    "null",
    "~",
    "0o7",
    "%YAML 1.2\n",
    "@",
    "`",
];
const JSON_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "\\ud800",
    "\\udc00",
    "\\x",
    "1e400",
    "-0",
    "null",
    "true",
    "\"volume\"",
    "\"Volumes\"",
    "\"ID\"",
    "\"secrets\"",
    "18446744073709551616",
    "-9223372036854775809",
    "\"capability\"",
    "\"Topologies\"",
    "\"Segments\"",
    "\"RequestedCapacityMin\"",
    "\"WriteAllocs\"",
    "\"MountOptions\"",
];

const FILTER_WORDS: &[&str] = &[
    "ID",
    "Parameters.type",
    "Parameters[\"x\"]",
    "Schedulable",
    "CurrentReaders",
    " == ",
    " != ",
    " in ",
    " not in ",
    " contains ",
    " matches ",
    " is empty",
    " is not empty",
    " and ",
    " or ",
    "not ",
    "(",
    ")",
    "[",
    "]",
    "\"",
    "`",
    "\\",
    "-1",
    "0.5",
    "true",
    "(a+)+",
    "\\w{50}",
    "[[:alpha:]]",
    "(?i)",
];

const LANGUAGE_SEEDS: &[&str] = &[
    include_str!("../../specs/environments/shared/classes.hcl"),
    include_str!("../../specs/environments/teams/payments/volumes.hcl"),
    include_str!("../../specs/environments/teams/platform/volumes.hcl"),
    "variable \"v\" { default = { eu = \"5GiB\" } }\nvolume \"a\" {\n  for_each = var.v\n  name = \"x-${each.key}\" # why\n  text = <<-EOF\n    a ${each.value}\n  EOF\n}\n",
];

/// Declares variables of several types.
const VARIABLES: &str = r#"
variable "env" { type = string }
variable "sizes" { type = map(string) }
variable "key" {
  type      = string
  sensitive = true
}
volume "a" {
  for_each  = var.sizes
  name      = "${var.env}-${each.key}"
  plugin_id = "p"
  secrets   = { key = var.key }
}
"#;

pub(crate) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "hcl",
        run: |input| specification(input, Syntax::Hcl),
        seeds: &[
            include_str!("../../specs/hostpath.hcl"),
            "a = [1, f(2)]\nb = <<EOF\nx\nEOF\nsecrets { a = \"${x}\" }\n",
        ],
        words: HCL_WORDS,
    },
    FuzzTarget {
        name: "yaml",
        run: |input| specification(input, Syntax::Yaml),
        seeds: &[
            include_str!("../../specs/hostpath.yaml"),
            "a: &a {x: [1, 2]}\nb:\n  <<: *a\n---\nid: x\n",
        ],
        words: YAML_WORDS,
    },
    FuzzTarget {
        name: "json",
        run: |input| specification(input, Syntax::Json),
        seeds: &[
            include_str!("../../specs/hostpath.json"),
            "{\"volume\":{\"a\":{\"capability\":[{},{}],\"x\":[1 2,,]}}}",
        ],
        words: JSON_WORDS,
    },
    FuzzTarget {
        name: "language-hcl",
        run: |input| language(input, Syntax::Hcl),
        seeds: LANGUAGE_SEEDS,
        words: LANGUAGE_WORDS,
    },
    FuzzTarget {
        name: "language-yaml",
        run: |input| language(input, Syntax::Yaml),
        seeds: &[
            include_str!("../../specs/environments/teams/catalog/volumes.yaml"),
            "variable: {v: {default: [1, a]}}\nclass:\n  c: &c {plugin_id: 'p-${volume.key}'}\nvolume:\n  a: {<<: *c, count: '${length(var.v)}'}\n",
        ],
        words: LANGUAGE_WORDS,
    },
    FuzzTarget {
        name: "language-json",
        run: |input| language(input, Syntax::Json),
        seeds: &[
            include_str!("../../specs/environments/teams/ml/volumes.json"),
            r#"{"locals":{"l":["a","${1 + 1}"]},"volume":{"a":{"for_each":"${local.l}","class":null}}}"#,
        ],
        words: LANGUAGE_WORDS,
    },
    FuzzTarget {
        name: "expressions",
        run: |input| {
            let text = String::from_utf8_lossy(input);
            let file =
                format!("locals {{\n  l = {text}\n}}\nvolume \"a\" {{\n  name = local.l\n}}\n");
            language(file.as_bytes(), Syntax::Hcl);
        },
        seeds: &[
            "[for x in range(3) : { a = x * 2, b = \"x-${x}\" } if x != 1][0].b",
            "merge({ a = [1] }, { for k, v in { b = null } : upper(k) => v == null ? \"n\" : v })",
            "jsonencode(flatten([[1], [2, [3.5]]])) == format(\"%05d%%\", -7) || matches(\"^a+$\", \"aaa\")",
        ],
        words: LANGUAGE_WORDS,
    },
    FuzzTarget {
        name: "type-constraint",
        run: |input| {
            let text = String::from_utf8_lossy(input);
            let file = format!(
                "variable \"v\" {{\n  type = {text}\n  default = {{ a = [\"x\"] }}\n}}\nvolume \"a\" {{\n  name = var.v.a[0]\n}}\n"
            );
            language(file.as_bytes(), Syntax::Hcl);
        },
        seeds: &[
            "map(object({ size = string, class = optional(string, \"fast\"), more = optional(list(any), [1]) }))",
            "object({ a = list(string) })",
        ],
        words: LANGUAGE_WORDS,
    },
    FuzzTarget {
        name: "var-file",
        run: |input| {
            let Ok(text) = std::str::from_utf8(input) else {
                return;
            };
            for syntax in Syntax::ALL {
                run_language(&[(VARIABLES, Syntax::Hcl)], &[(text, syntax)]);
            }
        },
        seeds: &[
            "env = \"prod\"\nsizes = { eu = \"5GiB\" }\nkey = <<EOF\nsecret\nEOF\n",
            "env: prod\nsizes: {eu: 5GiB}\nkey: secret\n",
            r#"{"env": "prod", "sizes": {"eu": "5GiB"}, "key": "secret"}"#,
        ],
        words: LANGUAGE_WORDS,
    },
    FuzzTarget {
        name: "fmt",
        run: |input| {
            let Ok(text) = std::str::from_utf8(input) else {
                return;
            };
            let format = |text: &str| {
                let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
                let source = sources.add("input", text);
                spec::format_hcl(&mut sources, source, spec::FormatChoice::Named, &mut diagnostics)
            };
            if let Some(once) = format(text) {
                let twice = format(&once).expect("what was formatted can be read");
                assert_eq!(once, twice, "{text:?}");
            }
        },
        seeds: LANGUAGE_SEEDS,
        words: HCL_WORDS,
    },
    FuzzTarget {
        name: "job",
        run: job_file,
        seeds: &[
            include_str!("../data/jobs/accepted/csi-writer.nomad.hcl"),
            include_str!("../data/jobs/accepted/plugin-monolith.nomad.hcl"),
            include_str!("../data/jobs/accepted/restart-and-kill.nomad.hcl"),
            "{\"job\":{\"a\":{\"group\":{\"g\":{\"task\":{\"t\":{\"driver\":\"exec\"}}}}}}}",
            "{\"Job\":{\"ID\":\"a\",\"TaskGroups\":[{\"Name\":\"g\",\"Tasks\":[{\"Name\":\"t\"}]}]}}",
        ],
        words: JOB_WORDS,
    },
    FuzzTarget {
        name: "size",
        run: |input| {
            let text = String::from_utf8_lossy(input);
            if let Ok(size) = Bytes::parse(&text) {
                assert_eq!(Bytes::parse(&size.to_string()), Ok(size), "{text}");
            }
        },
        seeds: &["10GiB", "1,000.5 kB", "9223372036854775807", "1e3"],
        words: &["GiB", "kB", ".", ",", "-", "+", " ", "E", "Ei", "0", "9"],
    },
    FuzzTarget {
        name: "filter",
        run: filter,
        seeds: &[
            r#"PluginID == "ebs0" and (Name matches "^db" or "gp" in Parameters.type)"#,
            "not CloneID is empty or CurrentReaders != 0 and Schedulable == true",
            r#"Parameters["a.b"] not matches `(a+)+$` and x not in WriteAllocs"#,
        ],
        words: FILTER_WORDS,
    },
    FuzzTarget {
        name: "nomad",
        run: nomad_json,
        seeds: &[
            r#"[{"ID":"a","Namespace":"default","Schedulable":true,"CurrentReaders":1}]"#,
            r#"{"ID":"a","Topologies":[{"Segments":{"z":"a"}}],"Allocations":[{"ID":"x"}],"WriteAllocs":{"x":null},"RequestedCapacityMin":5}"#,
            r#"{"ID":"p","Controllers":{"n":{"Healthy":true,"ControllerInfo":{"SupportsClone":true}}},"Nodes":null}"#,
            r#"{"Volumes":[{"ExternalID":"e","CapacityBytes":-1}],"NextToken":"x"}"#,
        ],
        words: JSON_WORDS,
    },
    FuzzTarget {
        name: "request",
        run: |input| {
            let limits = DecodeLimits { json_values: 10_000, list_elements: 1000 };
            if let Ok(request) = wire::decode_bounded::<WriteRequest>(input, limits) {
                for volume in &request.volumes {
                    let _converted = wire::request_from_wire(volume, &Namespace::default());
                }
            }
        },
        seeds: &[
            r#"{"Volumes":[{"ID":"a","PluginID":"p","RequestedCapabilities":[{"AccessMode":"single-node-writer"}],"Secrets":{"a":"b"}}],"Token":""}"#,
        ],
        words: JSON_WORDS,
    },
    FuzzTarget {
        name: "terraform",
        run: |input| {
            let text = String::from_utf8_lossy(input);
            if let Ok(found) = spec::read_terraform_state(&text) {
                for problem in &found.problems {
                    assert!(!problem.contains('\n'), "{problem:?}");
                }
                let _blocks = spec::removed_blocks(&found.addresses);
            }
        },
        seeds: &[
            r#"{"version":4,"resources":[{"mode":"managed","type":"nomad_csi_volume","name":"db","instances":[{"index_key":"a","attributes":{"volume_id":"db","plugin_id":"p","secrets":{"a":"b"}}}]}]}"#,
            r#"{"version":3,"modules":[]}"#,
        ],
        words: JSON_WORDS,
    },
    FuzzTarget {
        name: "saved-plan",
        run: |input| {
            let text = String::from_utf8_lossy(input);
            if let Ok(plan) = SavedPlan::read(&text) {
                let _origin = plan.origin();
            }
        },
        seeds: &[r#"{"nomad_csi_plan":1,"files":["a"],"directory":"/","ledger":"nomad"}"#],
        words: JSON_WORDS,
    },
    // One line each for the head and a shard, as the ledger in a file or in variables has them.
    FuzzTarget {
        name: "ledger",
        run: |input| {
            let text = String::from_utf8_lossy(input);
            let (head, volumes) = text.split_once('\n').unwrap_or((&text, ""));
            let mut stored = StoredSet::default();
            for (name, text) in [("head", head), ("v", volumes)] {
                let name = ShardName::parse(name).expect("the name of a shard");
                let text = text.to_owned();
                stored.shards.insert(name, StoredShard { revision: 1, text });
            }
            let name = SetName::parse("web").expect("the name of a set");
            if let Ok(set) = LedgerSet::read(name.clone(), &stored, LedgerKey::new([1; 32])) {
                let again = LedgerSet::read(name, &stored, LedgerKey::new([1; 32]));
                assert!(again.is_ok_and(|again| again == set));
            }
        },
        seeds: &[concat!(
            r#"{"format":1,"sequence":3,"save":"1","key":"0707070707070707070707070707070707070707070707070707070707070707"}"#,
            "\n",
            r#"{"format":1,"sequence":3,"volumes":[{"namespace":"default","id":"db","owned":{"protect":true}}]}"#
        )],
        words: JSON_WORDS,
    },
    FuzzTarget {
        name: "contexts",
        run: |input| {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("config.toml");
            std::fs::write(&path, input).expect("a file");
            let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
            let _contexts = files::read_config(&path, &mut sources, &mut diagnostics);
            let text = String::from_utf8_lossy(input);
            for label in diagnostics.iter().flat_map(|one| &one.labels) {
                assert!(label.span.range().end <= text.len(), "{label:?}");
            }
        },
        seeds: &[
            "[context.lab]\naddress = \"http://a\"\ntoken = { env = \"T\" }\n",
            "[context.x]\ntoken = \"literal\"\n",
        ],
        words: &["[context.", "]", "address", "token", " = ", "{", "}", "env", "file", "\"", "\n"],
    },
    // A record is checked by its digest first; this is what is inside it.
    #[cfg(feature = "agent")]
    FuzzTarget {
        name: "journal",
        run: |input| {
            if let Ok(event) = serde_json::from_slice::<nomad_csi_claims::state::Event>(input) {
                let written = serde_json::to_vec(&event).unwrap_or_default();
                let read = serde_json::from_slice::<nomad_csi_claims::state::Event>(&written);
                assert!(read.is_ok_and(|read| read == event));
            }
        },
        seeds: &[
            r#"{"at":1,"kind":{"agent_started":{"origin":"a"}}}"#,
            r#"{"at":-5,"kind":{"node_registered":{"node":{"id":"n"}}}}"#,
        ],
        words: JSON_WORDS,
    },
    #[cfg(feature = "agent")]
    FuzzTarget {
        name: "page-token",
        run: |input| {
            let text = String::from_utf8_lossy(input);
            let _parsed = nomad_csi_claims::state::VolumeToken::parse(&text);
        },
        seeds: &["default.volume", "a.b.c"],
        words: &[".", "%2f", "/", "\0", "default"],
    },
];

/// Reads a specification as `validate` does, and takes the place of every label.
fn specification(input: &[u8], syntax: Syntax) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("input", text);
    let defaults = Defaults::default();
    let volumes = spec::parse(&mut sources, source, syntax, &defaults, &mut diagnostics);
    spec::validate(&volumes, Purpose::ByExternalId, &mut diagnostics);
    for label in diagnostics.iter().flat_map(|one| &one.labels) {
        let range = label.span.range();
        assert!(range.start <= range.end && range.end <= text.len(), "{label:?}");
        assert!(
            text.is_char_boundary(range.start) && text.is_char_boundary(range.end),
            "{label:?}"
        );
        let _place = sources.location(label.span);
    }
    assert_eq!(sources.redacted_text(source).len(), text.len());
}

/// Reads a file of the language, with the variables that the seeds need.
fn language(input: &[u8], syntax: Syntax) {
    if let Ok(text) = std::str::from_utf8(input) {
        run_language(&[(text, syntax)], &[("env = \"dev\"\n", Syntax::Hcl)]);
    }
}

/// Evaluates specifications as `validate` does, takes the place of every label, and prints the volumes.
fn run_language(files: &[(&str, Syntax)], variable_files: &[(&str, Syntax)]) {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let mut add = |(text, syntax): &(&str, Syntax)| (sources.add("input", *text), *syntax);
    let texts: Vec<_> = files.iter().map(&mut add).collect();
    let files = variable_files.iter().map(&mut add).collect();
    let given = spec::GivenVariables { files, ..spec::GivenVariables::default() };
    let defaults = Defaults::default();
    let parsed = spec::read(&mut sources, &texts, &given, &defaults, &mut diagnostics);
    spec::validate(&parsed.volumes, Purpose::ByExternalId, &mut diagnostics);
    let steps = diagnostics.iter().flat_map(|one| &one.trail).filter_map(|step| step.span);
    let labels = diagnostics.iter().flat_map(|one| &one.labels).map(|label| label.span);
    for span in labels.chain(steps) {
        let (text, range) = (sources.text(span.source), span.range());
        assert!(text.get(range.clone()).is_some(), "{range:?} of {text:?}");
        let _place = sources.location(span);
    }
    let volumes = parsed.volumes.iter().map(spec::WritableSpec::without_values);
    let volumes: Vec<_> = volumes.collect();
    for syntax in Syntax::ALL {
        let _text = spec::encode_all(&volumes, None, syntax);
    }
}

/// Reads what a server sends, as lists and as documents.
fn nomad_json(input: &[u8]) {
    let limits = DecodeLimits { json_values: 10_000, list_elements: 10_000 };
    let _listed = wire::for_each_element(input, limits, |stub: VolumeStub, _| {
        let _summary = wire::summary_from_wire(&stub);
        Ok::<(), ()>(())
    });
    let Ok(value) = wire::parse_bounded(input, limits) else {
        return;
    };
    if let Ok(volume) = wire::decode_value::<VolumeDocument>(&value) {
        let _volume = wire::volume_from_wire(&volume);
    }
    if let Ok(plugin) = wire::decode_value::<PluginDocument>(&value) {
        let _plugin = wire::plugin_from_wire(&plugin);
    }
    if let Ok(page) = wire::decode_value::<ExternalVolumesResponse>(&value) {
        let _volumes: Vec<_> = page.volumes.iter().map(wire::external_volume_from_wire).collect();
    }
    let _snapshots = wire::decode_value::<SnapshotsResponse>(&value);
}

/// Reads a filter expression, tests it, and reads it again as it is written.
fn filter(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(filter) = wire::Filter::parse(&text) else {
        return;
    };
    let item = serde_json::json!({
        "ID": "a".repeat(10_000),
        "Name": "",
        "Schedulable": true,
        "CurrentReaders": 3,
        "Parameters": {"type": "gp3", "x": null},
        "Topologies": [{"Segments": {}}],
    });
    if let Some(item) = item.as_object() {
        let _result = filter.matches(item);
    }
    // Quotes and escapes may be longer than in the text.
    let written = filter.to_string();
    if written.len() <= wire::Filter::LENGTH {
        assert_eq!(wire::Filter::parse(&written), Ok(filter), "{text}");
    }
}

/// Reads a job file, checks it, and converts it to Nomad's API and back.
fn job_file(input: &[u8]) {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let text = String::from_utf8_lossy(input);
    let source = sources.add("job", text.as_ref());
    let defaults = Defaults::default();
    let parsed = parse_job(&mut sources, source, Syntax::Hcl, &defaults, &mut diagnostics);
    if let Some(JobFile::Specification(parsed)) = parsed {
        check(&parsed, &mut diagnostics);
        if !diagnostics.has_errors() {
            let document = wire::job_to_wire(&parsed.job);
            let (again, unknown) = wire::job_from_wire(&document, &Namespace::default());
            assert!(unknown.is_empty(), "{unknown:?}");
            assert_eq!(again, parsed.job);
        }
    } else if let Ok(document) = wire::decode::<wire::JobDocument>(input) {
        let (job, _) = wire::job_from_wire(&document, &Namespace::default());
        let _problems = validate(&job);
    }
    for problem in diagnostics.iter() {
        for label in &problem.labels {
            let _place = sources.location(label.span);
        }
    }
}
