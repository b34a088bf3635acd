//! Checks the rules of the architecture that the compiler cannot: purity, facades, bans with their reasons, listed files, and
//! documents that name what exists.
//!
//! The crates of the workspace are the layers, and their manifests say which crate may use which. The three modules of the
//! root package are not crates; their table is below. Sources are read as text, without comments, strings and inline tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the modules of the root package may not use.
const ROOT_MODULES: &[(&str, &[&str])] = &[
    ("cli", &["server", "node", "hostpath"]),
    ("agent", &["client", "conformance", "lsp"]),
    (
        "telemetry",
        &[
            "claims",
            "client",
            "conformance",
            "csi",
            "hostpath",
            "lsp",
            "node",
            "plan",
            "server",
            "spec",
            "wire",
        ],
    ),
];

/// Code without I/O, clock, async and environment.
const PURE: &[&str] = &["claims/", "model/", "plan/", "spec/", "wire/"];
/// The part of `model` that is not pure: files that only this user can use.
const PRIVATE_FILES: &str = "model/private/";

/// A text that may occur only in files whose path starts with one of `allowed`.
struct Ban {
    text: &'static str,
    allowed: &'static [&'static str],
    because: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        text: "hcl_edit",
        allowed: &[
            "spec/expression/convert.rs",
            "spec/expression/embedded.rs",
            "spec/hcl.rs",
            "spec/hcl1.rs",
            "spec/interpolation.rs",
        ],
        because: "few files know the HCL crate: of literals, of expressions, of templates",
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
            "client/files/pairs.rs",
            "cli/ui/",
        ],
        because: "the YAML crate is young and stays behind few modules",
    },
    Ban {
        text: "reqwest",
        allowed: &["client/nomad/"],
        because: "one adapter speaks HTTP to a server",
    },
    Ban {
        text: "redb",
        allowed: &["database/", "server/store/", "hostpath/catalog", "testing/crash_disk.rs"],
        because: "its files are in one crate, its tables in the journal and in the plugin's catalogue",
    },
    Ban {
        text: "axum",
        allowed: &["server/http/", "agent/"],
        because: "HTTP is served in one place",
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
    ("rustix", "I/O"),
    ("nix::", "I/O"),
    ("tempfile", "I/O"),
    ("std::process", "processes"),
    ("std::os", "I/O"),
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
    pub(super) fn is_facade(&self) -> bool {
        self.path.ends_with("/mod.rs") || self.path.ends_with("/lib.rs")
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
        File { path, code: bare_code(&text), text }
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
            previous = if previous == '\\' && c == '\\' { ' ' } else { c };
        }
        code.push('\n');
    }
    code
}

/// The crates of the workspace below the root package, each with those that it uses.
pub(super) fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("src")).expect("the folder can be read") {
        let path = entry.expect("the entry can be read").path();
        let Ok(manifest) = std::fs::read_to_string(path.join("Cargo.toml")) else {
            continue;
        };
        let name = path.file_name().expect("a folder has a name");
        let (_, rest) = manifest.split_once("\n[dependencies]\n").expect("each crate uses others");
        let section = rest.split("\n[").next().unwrap_or_default();
        let used = section.lines().filter(|line| !line.contains("optional = true"));
        let used = used.filter_map(|line| first_name(line.strip_prefix("nomad-csi-")?));
        found.insert(name.to_string_lossy().into_owned(), used.collect());
    }
    found
}

/// The crate in which a file of `src` lies; `None` for the root package.
pub(super) fn crate_of(path: &str) -> Option<&str> {
    let (folder, _) = path.split_once('/')?;
    root().join("src").join(folder).join("Cargo.toml").exists().then_some(folder)
}

fn first_name(text: &str) -> Option<String> {
    let name: String =
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn the_modules_of_the_root_package_leave_out_what_is_not_theirs() {
    let mut problems = vec![];
    for file in sources() {
        let module = file.path.split('/').next().unwrap_or_default();
        let excluded = ROOT_MODULES.iter().find(|(name, _)| *name == module);
        if matches!(module, "agent" | "telemetry") && file.code.contains("crate::cli") {
            problems.push(format!("src/{}: `{module}` may not use `cli`", file.path));
        }
        for other in excluded.into_iter().flat_map(|(_, others)| *others) {
            if file.code.contains(&format!("nomad_csi_{other}::")) {
                problems.push(format!("src/{}: `{module}` may not use `{other}`", file.path));
            }
        }
    }
    report(&problems);
}

#[test]
fn the_core_is_pure() {
    let mut problems = vec![];
    let is_pure = |file: &&File| {
        PURE.iter().any(|start| file.path.starts_with(start))
            && !file.path.starts_with(PRIVATE_FILES)
            && !file.path.contains("/tests/")
    };
    for file in sources().iter().filter(is_pure) {
        for (text, what) in BANNED_IN_PURE {
            if file.code.contains(text) {
                problems.push(format!("src/{}: `{text}`: the core uses no {what}", file.path));
            }
        }
    }
    report(&problems);
}

/// The folder of the module whose facade a file of it does not import, and how its paths start: the module of the root
/// package, the public module of a crate, or the crate.
fn own_module(path: &str) -> Option<(String, String)> {
    let (first, rest) = path.split_once('/')?;
    let Some(folder) = crate_of(path) else {
        return Some((format!("{first}/"), format!("crate::{first}::")));
    };
    let facade = std::fs::read_to_string(root().join("src").join(folder).join("lib.rs"));
    let facade = facade.expect("each crate has a facade");
    match rest.split_once('/') {
        Some((module, _)) if facade.contains(&format!("pub mod {module};")) => {
            Some((format!("{folder}/{module}/"), format!("crate::{module}::")))
        }
        _ => Some((format!("{folder}/"), "crate::".to_owned())),
    }
}

#[test]
fn a_facade_holds_only_doc_modules_and_reexports_and_no_file_imports_its_own() {
    let mut problems = vec![];
    let files = sources();
    for file in &files {
        if file.is_facade() {
            let (mut in_use, mut in_attribute) = (false, false);
            for line in file.code.lines().map(str::trim).filter(|line| !line.is_empty()) {
                in_attribute |= line.starts_with("#![");
                if in_attribute {
                    in_attribute = !line.ends_with(")]");
                    continue;
                }
                let starts = [
                    "mod ",
                    "pub mod ",
                    "pub use ",
                    "pub(crate) use ",
                    "pub(super) use ",
                    "pub(crate) mod ",
                    "#[",
                ];
                if !in_use && !starts.iter().any(|start| line.starts_with(start)) {
                    problems.push(format!("src/{}: a facade holds `{line}`", file.path));
                }
                let is_use = in_use || line.contains("use ");
                in_use = is_use && !line.ends_with(';');
            }
        }
        let Some((folder, prefix)) = own_module(&file.path) else { continue };
        let own = files.iter().filter_map(|other| other.path.strip_prefix(&folder));
        let siblings: BTreeSet<_> = own
            .filter_map(|path| path.split('/').next())
            .map(|name| name.strip_suffix(".rs").unwrap_or(name))
            .collect();
        for (at, _) in file.code.match_indices(&prefix) {
            let is_path =
                file.code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c));
            let rest = &file.code[at + prefix.len()..];
            let group = rest.strip_prefix('{').and_then(|group| group.split('}').next());
            let names =
                group.unwrap_or(rest).split(',').take(if group.is_some() { usize::MAX } else { 1 });
            for name in names.filter_map(first_name) {
                if !is_path && !siblings.contains(name.as_str()) && !file.is_facade() {
                    problems.push(format!(
                        "src/{}: imports its own facade: `{prefix}{name}`",
                        file.path
                    ));
                }
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
                problems.push(format!("src/{}: `{}`: {}", file.path, ban.text, ban.because));
            }
        }
    }
    report(&problems);
}

/// Files that work in directories in which tasks can write: `private::TaskWritableDirectory` and what it is made of.
const BELOW_TASKS: &[&str] = &[
    "hostpath/data.rs",
    "model/private/search_right.rs",
    "model/private/task_directory.rs",
    "model/private/tree.rs",
    "node/alloc_directory.rs",
    "node/driver/shim/destination.rs",
    "node/mounts/copy.rs",
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
        for text in ["std::fs", "fs::chmod(", "fs::chown(", "fs::setxattr(", "fs::getxattr("] {
            if code.contains(text) {
                problems.push(format!("src/{path}: `{text}`: a task can replace what it names"));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_file_has_a_module_doc() {
    let silent = sources().into_iter().filter(|file| !file.text.starts_with("//! "));
    report(&silent.map(|file| format!("src/{}: has no module doc", file.path)).collect::<Vec<_>>());
}

/// The crates of the workspace, and the modules of the root package.
pub(super) fn rooms() -> BTreeSet<String> {
    let modules = ROOT_MODULES.iter().map(|(module, _)| (*module).to_owned());
    crates().into_keys().chain(modules).collect()
}

#[test]
fn the_picture_in_the_crate_doc_names_the_crates_that_exist() {
    let text = std::fs::read_to_string(root().join("src/lib.rs")).expect("lib.rs is readable");
    let picture =
        text.split("```text").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    let words: BTreeSet<String> = picture
        .lines()
        .flat_map(|line| line.trim_start_matches("//!").split("  "))
        .map(str::trim)
        .filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()))
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(words, rooms(), "left: the picture; right: what exists");
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
        let name =
            path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
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
fn documents_name_files_and_crates_that_exist() {
    let mut problems = vec![];
    for document in ["docs/architecture.md", "CONTRIBUTING.md", "docs/style.md"] {
        let text =
            std::fs::read_to_string(root().join(document)).expect("the document is readable");
        let missing = named_paths(&text).into_iter().filter(|path| !root().join(path).exists());
        problems.extend(missing.map(|path| format!("{document}: `{path}` does not exist")));
    }
    report(&problems);
    let text = std::fs::read_to_string(root().join("docs/architecture.md"))
        .expect("the document is readable");
    let table = text.split("## Layers").nth(1).unwrap_or_default();
    let table = table.split("\n- ").next().unwrap_or_default();
    let documented: BTreeSet<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let rooms = rooms();
    let rooms: BTreeSet<&str> = rooms.iter().map(String::as_str).collect();
    assert_eq!(documented, rooms, "left: docs/architecture.md; right: what exists");
    for (name, uses) in crates() {
        let row = table.lines().find_map(|line| line.strip_prefix(&format!("| `{name}` |")));
        let cell = row.and_then(|row| row.split('|').nth(1)).unwrap_or_default();
        let listed: BTreeSet<&str> = cell.split('`').skip(1).step_by(2).collect();
        let uses: BTreeSet<&str> = uses.iter().map(String::as_str).collect();
        assert_eq!(listed, uses, "{name}: left: docs/architecture.md; right: its manifest");
    }
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
