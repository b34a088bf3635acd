//! Enforces the architecture: layers, facades, bans with their reasons, listed files, and documents
//! that name what exists.
//!
//! The compiler does not keep the layers of one crate apart, so this test does. It reads the sources
//! as text, without comments, strings and inline tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The modules that each module may use, besides itself.
pub(super) const LAYERS: &[(&str, &[&str])] = &[
    ("diagnostic", &[]),
    ("model", &["diagnostic"]),
    ("retry", &["diagnostic"]),
    ("spec", &["diagnostic", "model", "retry"]),
    ("claim", &["diagnostic", "model", "retry"]),
    ("job", &["diagnostic", "model", "spec"]),
    ("plan", PURE_BELOW),
    ("doctor", DOCTOR),
    ("state", STATE),
    ("place", PLACE),
    ("wire", PURE_BELOW),
    ("ports", PURE),
    ("private", &["diagnostic"]),
    ("nomad", PORTS),
    ("csi", PORTS),
    ("store", PORTS),
    ("mounts", PORTS),
    ("driver", DRIVER),
    ("files", PORTS),
    ("telemetry", PORTS),
    ("secrets", PORTS),
    ("reconcile", PORTS),
    ("server", PORTS),
    ("node", PORTS),
    ("hostpath", PORTS_AND_CSI),
    ("conformance", PORTS_AND_CSI),
    ("agent", AGENT),
    ("cli", CLI),
];
const PURE_BELOW: &[&str] = &["diagnostic", "model", "retry", "spec"];
const DOCTOR: &[&str] = &["diagnostic", "model", "plan"];
const STATE: &[&str] = &["diagnostic", "model", "retry", "spec", "claim"];
const PLACE: &[&str] = &["diagnostic", "model", "retry", "claim", "state"];
const PURE: &[&str] = &[
    "diagnostic",
    "model",
    "retry",
    "spec",
    "claim",
    "job",
    "plan",
    "doctor",
    "state",
    "place",
    "wire",
];
const PORTS: &[&str] = &[
    "diagnostic",
    "model",
    "retry",
    "spec",
    "claim",
    "job",
    "plan",
    "doctor",
    "state",
    "place",
    "wire",
    "ports",
    "private",
];
const DRIVER: &[&str] = &[
    "diagnostic",
    "model",
    "retry",
    "spec",
    "claim",
    "plan",
    "doctor",
    "state",
    "place",
    "wire",
    "ports",
    "private",
    "mounts",
];
const PORTS_AND_CSI: &[&str] = &[
    "diagnostic",
    "model",
    "retry",
    "spec",
    "claim",
    "job",
    "plan",
    "doctor",
    "state",
    "place",
    "wire",
    "ports",
    "private",
    "csi",
];
const AGENT: &[&str] = &[
    "diagnostic",
    "model",
    "retry",
    "spec",
    "claim",
    "job",
    "plan",
    "doctor",
    "state",
    "place",
    "wire",
    "ports",
    "private",
    "csi",
    "store",
    "mounts",
    "driver",
    "files",
    "telemetry",
    "server",
    "node",
    "hostpath",
];
const CLI: &[&str] = &[
    "diagnostic",
    "model",
    "retry",
    "spec",
    "claim",
    "job",
    "plan",
    "doctor",
    "state",
    "place",
    "wire",
    "ports",
    "private",
    "nomad",
    "csi",
    "store",
    "mounts",
    "driver",
    "files",
    "secrets",
    "telemetry",
    "reconcile",
    "conformance",
    "agent",
];

/// Modules without I/O, clock, async and environment.
const PURE_MODULES: &[&str] = PURE;

/// A text that may occur only in files whose path starts with one of `allowed`.
struct Ban {
    text: &'static str,
    allowed: &'static [&'static str],
    because: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        text: "std::env::",
        allowed: &["cli/env.rs", "main.rs", "agent/config.rs"],
        because: "the environment is read in one place; `agent/config.rs` needs the program's own path",
    },
    Ban {
        text: "SystemTime::now",
        allowed: &["ports/clock.rs"],
        because: "time comes from `Clock`, so that tests can set it",
    },
    Ban {
        text: "remove_dir_all",
        allowed: &["hostpath/data.rs"],
        because: "nothing is deleted recursively where a volume could be mounted",
    },
    Ban {
        text: "hcl_edit",
        allowed: &["spec/hcl.rs", "spec/hcl1.rs", "spec/interpolation.rs"],
        because: "one file knows the HCL crate, and one its templates",
    },
    Ban {
        text: "use hcl::",
        allowed: &["spec/encode.rs", "spec/terraform.rs"],
        because: "specifications are written in one module, Terraform's blocks beside its state",
    },
    Ban {
        text: "serde_yaml",
        allowed: &[
            "spec/yaml.rs",
            "spec/json.rs",
            "spec/encode.rs",
            "files/pairs.rs",
            "cli/ui/",
        ],
        because: "the YAML crate is young and stays behind few modules",
    },
    Ban {
        text: "reqwest",
        allowed: &["nomad/"],
        because: "one adapter speaks HTTP to a server",
    },
    Ban {
        text: "redb",
        allowed: &["store/", "hostpath/catalog"],
        because: "one adapter, and the plugin's own catalogue",
    },
    Ban {
        text: "tonic",
        allowed: &["csi/", "hostpath/"],
        because: "gRPC ends at the adapter and in the plugin",
    },
    Ban {
        text: "axum",
        allowed: &["server/http/", "agent/"],
        because: "HTTP is served in one place",
    },
    Ban {
        text: "todo!",
        allowed: &[],
        because: "no stubs",
    },
    Ban {
        text: "unimplemented!",
        allowed: &[],
        because: "no stubs",
    },
    Ban {
        text: ".to_string().contains(",
        allowed: &[],
        because: "errors are matched by type or code, never by text",
    },
];

const BANNED_IN_PURE: &[(&str, &str)] = &[
    ("tokio", "async"),
    ("async fn", "async"),
    ("std::fs", "I/O"),
    ("std::net", "I/O"),
    ("std::io", "I/O"),
    ("Instant::now", "a clock"),
    ("uuid::", "randomness"),
    ("getrandom", "randomness"),
];

pub(super) struct File {
    /// Path below `src`, with `/`.
    pub(super) path: String,
    /// Without comments, strings and inline tests.
    pub(super) code: String,
    /// The whole text.
    text: String,
}

impl File {
    fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    pub(super) fn is_facade(&self) -> bool {
        self.path.ends_with("/mod.rs")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(super) fn sources() -> Vec<File> {
    let base = root().join("src");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("sources are readable");
        let path = path
            .strip_prefix(&base)
            .expect("it lies below src")
            .to_string_lossy()
            .replace('\\', "/");
        File {
            path,
            code: bare_code(&text),
            text,
        }
    };
    rust_files(&base)
        .into_iter()
        .map(read)
        .filter(|file| !file.path.ends_with("tests.rs"))
        .collect()
}

/// The code of a file without comments, the insides of strings, and inline tests.
fn bare_code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let mut code = String::new();
    for line in text[..end].lines() {
        let mut in_string = false;
        let mut previous = ' ';
        for (at, c) in line.char_indices() {
            if !in_string && line[at..].starts_with("//") {
                break;
            }
            if c == '"' && previous != '\\' && !line[..at].ends_with('\'') {
                in_string = !in_string;
            }
            if !in_string {
                code.push(c);
            }
            previous = if previous == '\\' && c == '\\' {
                ' '
            } else {
                c
            };
        }
        code.push('\n');
    }
    code
}

/// Names that follow `crate::` anywhere in the code, also in `use crate::{a, b}`.
fn used_modules(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0_u32;
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => used.extend(first_name(&std::mem::take(&mut name))),
                    _ if depth == 0 => name.push(c),
                    _ => {}
                }
            }
            used.extend(first_name(&name));
        } else {
            used.extend(first_name(rest));
        }
    }
    used
}

fn first_name(text: &str) -> Option<String> {
    let name: String = text
        .trim_start()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!name.is_empty()).then_some(name)
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn modules_use_only_the_layers_below_them() {
    let layers: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    let mut problems = vec![];
    for file in sources() {
        let module = file.module();
        if matches!(module, "lib" | "main") {
            continue;
        }
        let Some(allowed) = layers.get(module) else {
            problems.push(format!("src/{}: module `{module}` has no layer", file.path));
            continue;
        };
        for used in used_modules(&file.code) {
            let is_module = layers.contains_key(used.as_str());
            if is_module && used != module && !allowed.contains(&used.as_str()) {
                problems.push(format!(
                    "src/{}: `{module}` may not use `{used}`",
                    file.path
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn the_core_is_pure() {
    let mut problems = vec![];
    for file in sources()
        .iter()
        .filter(|file| PURE_MODULES.contains(&file.module()))
    {
        for (text, what) in BANNED_IN_PURE {
            if file.code.contains(text) {
                problems.push(format!(
                    "src/{}: `{text}`: the core uses no {what}",
                    file.path
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn a_facade_holds_only_doc_modules_and_reexports_and_no_file_imports_its_own() {
    let mut problems = vec![];
    let files = sources();
    for file in &files {
        if file.is_facade() {
            let mut in_use = false;
            for line in file
                .code
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
            {
                let starts = [
                    "mod ",
                    "pub mod ",
                    "pub use ",
                    "pub(crate) use ",
                    "pub(super) use ",
                    "pub(crate) mod ",
                    "#[",
                    "#![",
                ];
                if !in_use && !starts.iter().any(|start| line.starts_with(start)) {
                    problems.push(format!("src/{}: a facade holds `{line}`", file.path));
                }
                let is_use = in_use || line.contains("use ");
                in_use = is_use && !line.ends_with(';');
            }
        }
        let module = file.module();
        let own = files.iter().filter(|other| other.module() == module);
        let siblings: BTreeSet<_> = own
            .filter_map(|other| other.path.split('/').nth(1))
            .map(|name| name.strip_suffix(".rs").unwrap_or(name))
            .collect();
        for (at, _) in file.code.match_indices(&format!("crate::{module}::")) {
            let rest = &file.code[at + format!("crate::{module}::").len()..];
            let name = first_name(rest).unwrap_or_default();
            if !siblings.contains(name.as_str()) && !file.is_facade() && file.path.contains('/') {
                problems.push(format!(
                    "src/{}: imports its own facade: `crate::{module}::{name}`",
                    file.path
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn banned_texts_occur_only_where_they_are_allowed() {
    let mut problems = vec![];
    for file in sources() {
        for ban in BANS {
            let allowed = ban.allowed.iter().any(|start| file.path.starts_with(start));
            if !allowed && file.code.contains(ban.text) {
                problems.push(format!(
                    "src/{}: `{}`: {}",
                    file.path, ban.text, ban.because
                ));
            }
        }
    }
    report(&problems);
}

/// Files that work in directories in which tasks can write: `private::TaskWritableDirectory` and what it is made of.
const BELOW_TASKS: &[&str] = &[
    "driver/shim/destination.rs",
    "hostpath/data.rs",
    "mounts/copy.rs",
    "node/alloc_directory.rs",
    "private/search_right.rs",
    "private/task_directory.rs",
    "private/tree.rs",
];

/// A path that is used twice there leads elsewhere the second time, if a task wants it to.
#[test]
fn files_that_work_below_tasks_name_nothing_by_its_path() {
    let sources = sources();
    let mut problems = vec![];
    for path in BELOW_TASKS {
        let Some(file) = sources.iter().find(|file| file.path == *path) else {
            problems.push(format!("src/{path} does not exist"));
            continue;
        };
        let code = file.code.replace("use std::fs::File;", "");
        for text in [
            "std::fs",
            "fs::chmod(",
            "fs::chown(",
            "fs::setxattr(",
            "fs::getxattr(",
        ] {
            if code.contains(text) {
                problems.push(format!(
                    "src/{path}: `{text}`: a task can replace what it names"
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_file_has_a_module_doc() {
    let silent = sources()
        .into_iter()
        .filter(|file| !file.text.starts_with("//! "));
    report(
        &silent
            .map(|file| format!("src/{}: has no module doc", file.path))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn the_layers_in_the_crate_doc_are_the_modules_that_exist() {
    let text = std::fs::read_to_string(root().join("src/lib.rs")).expect("lib.rs is readable");
    let declared: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    let picture = text
        .split("```text")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap_or_default();
    let words: BTreeSet<&str> = picture
        .lines()
        .flat_map(|line| line.trim_start_matches("//!").split("  "))
        .map(str::trim)
        .filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()))
        .collect();
    let layers: BTreeSet<&str> = LAYERS.iter().map(|(module, _)| *module).collect();
    assert_eq!(words, declared, "left: the picture; right: `pub mod` lines");
    assert_eq!(
        layers, declared,
        "left: the layer table; right: `pub mod` lines"
    );
}

#[test]
fn every_test_file_and_benchmark_is_listed() {
    let mut problems = vec![];
    for suite in ["suite", "e2e"] {
        let folder = root().join("tests").join(suite);
        let main =
            std::fs::read_to_string(folder.join("main.rs")).expect("the main file is readable");
        for path in rust_files(&folder) {
            let name = path
                .file_stem()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let listed = main.contains(&format!("mod {name};"));
            if path.parent() == Some(folder.as_path()) && name != "main" && !listed {
                problems.push(format!("tests/{suite}/{name}.rs is not listed in main.rs"));
            }
        }
    }
    let manifest =
        std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest is readable");
    for path in rust_files(&root().join("benches")) {
        let name = path
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        if !manifest.contains(&format!("name = \"{name}\"")) {
            problems.push(format!("benches/{name}.rs is not in Cargo.toml"));
        }
    }
    report(&problems);
}

#[test]
fn tests_wait_on_a_condition_and_not_on_time() {
    let mut problems = vec![];
    let word = concat!("sl", "eep(");
    for path in rust_files(&root().join("tests")) {
        let text = std::fs::read_to_string(&path).expect("tests are readable");
        // The only place that pauses, between two checks of a condition.
        if text.contains(word) && !path.ends_with("support/wait.rs") {
            problems.push(format!("{}: {word}", path.display()));
        }
    }
    report(&problems);
}

/// Source paths in backticks, such as `src/plan/build.rs`.
fn named_paths(text: &str) -> BTreeSet<&str> {
    let parts = text.split('`').skip(1).step_by(2);
    parts
        .filter(|part| {
            ["src/", "tests/", "proto/", "docs/", "specs/"]
                .iter()
                .any(|start| part.starts_with(start))
                && !part.contains(['<', '{', '*', ' '])
        })
        .collect()
}

#[test]
fn documents_name_files_that_exist_and_the_layers_that_are_enforced() {
    let mut problems = vec![];
    for document in ["docs/architecture.md", "CONTRIBUTING.md", "docs/style.md"] {
        let text =
            std::fs::read_to_string(root().join(document)).expect("the document is readable");
        let missing = named_paths(&text)
            .into_iter()
            .filter(|path| !root().join(path).exists());
        problems.extend(missing.map(|path| format!("{document}: `{path}` does not exist")));
    }
    report(&problems);
    let text = std::fs::read_to_string(root().join("docs/architecture.md"))
        .expect("the document is readable");
    let table = text.split("## Layers").nth(1).unwrap_or_default();
    let table = table.split("\n- ").next().unwrap_or_default();
    let documented: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let layers: BTreeSet<&str> = LAYERS.iter().map(|(module, _)| *module).collect();
    assert_eq!(
        documented, layers,
        "left: docs/architecture.md; right: the layers"
    );
}

/// Documents that are not part of the repository.
const UNREACHABLE: &[&str] = &[
    "csi-orchestration",
    "nomad-http-api",
    "nomad-neighbour-apis",
    "nomad-job-api",
    "csi-spec`",
    "`users`",
    "`architecture`",
    "csi-sanity.md",
];

#[test]
fn comments_cite_only_what_a_reader_can_find() {
    let mut problems = vec![];
    for folder in ["src", "tests", "benches"] {
        for path in rust_files(&root().join(folder)) {
            if path.ends_with("suite/architecture.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("sources are readable");
            for (at, line) in text.lines().enumerate() {
                if UNREACHABLE.iter().any(|name| line.contains(name)) {
                    problems.push(format!("{}:{}: {}", path.display(), at + 1, line.trim()));
                }
            }
        }
    }
    report(&problems);
}
