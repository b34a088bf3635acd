//! No two files import each other, directly or in a circle.
//!
//! The compiler keeps crates apart; this test keeps the files inside a crate apart. Imports are read as
//! text: `use` trees and paths that start with `crate`, `super` or `self`. A name that a facade
//! (`mod.rs` or `lib.rs`) re-exports counts as an import of the file that defines it.

use std::collections::{BTreeMap, BTreeSet};

use super::architecture::{File, crate_of, sources};

type Path = Vec<String>;

/// All files by module path, and what facades re-export.
struct Tree {
    files: BTreeMap<Path, String>,
    reexports: BTreeMap<Path, BTreeMap<String, Path>>,
}

/// The module path of a file: `plan/ledger/mod.rs` is `plan::ledger`.
fn module_path(file: &str) -> Path {
    let file = file.strip_suffix(".rs").unwrap_or(file);
    let file = ["/mod", "/lib"].iter().find_map(|end| file.strip_suffix(end)).unwrap_or(file);
    file.split('/').map(ToOwned::to_owned).collect()
}

/// Splits `a::{b, c::{d, e}}` into `a::b`, `a::c::d`, `a::c::e`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim();
        return if name.is_empty() { vec![] } else { vec![name.to_owned()] };
    };
    let prefix = &tree[..open];
    let inner = tree[open + 1..].trim_end().trim_end_matches('}');
    let mut depth = 0_i32;
    let mut parts = vec![String::new()];
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    // A group that closed inside the tree lost its brace above if it came last.
    let closed = |part: &String| {
        let open = part.matches('{').count();
        let close = part.matches('}').count();
        format!("{part}{}", "}".repeat(open.saturating_sub(close)))
    };
    let parts = parts.iter().map(closed);
    parts.flat_map(|part| expand(&part)).map(|part| format!("{prefix}{part}")).collect()
}

/// The `use` trees of a file, without visibility.
fn use_trees(code: &str) -> Vec<String> {
    let mut found = vec![];
    for statement in code.split(';') {
        let at = statement.rfind("use ").filter(|at| {
            let before = statement[..*at].lines().last().unwrap_or_default().trim();
            before.is_empty() || before.starts_with("pub")
        });
        if let Some(at) = at {
            found.push(statement[at + "use ".len()..].replace('\n', " "));
        }
    }
    found
}

/// Paths in expressions and types that start with `crate`, `super` or `self`.
fn inline_paths(code: &str) -> Vec<String> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    code.split(|c| !is_path(c))
        .filter(|word| ["crate::", "super::", "self::"].iter().any(|start| word.starts_with(start)))
        .map(ToOwned::to_owned)
        .collect()
}

impl Tree {
    fn new(files: &[File]) -> Self {
        let mut tree = Self {
            files: files.iter().map(|file| (module_path(&file.path), file.path.clone())).collect(),
            reexports: BTreeMap::new(),
        };
        for file in files.iter().filter(|file| file.is_facade()) {
            let here = module_path(&file.path);
            let mut names = BTreeMap::new();
            for path in use_trees(&file.code).iter().flat_map(|tree| expand(tree)) {
                if let Some(target) = tree.absolute(&here, &path) {
                    let name = target.last().cloned().unwrap_or_default();
                    names.insert(name, target);
                }
            }
            tree.reexports.insert(here, names);
        }
        tree
    }

    /// A path as seen from module `here`, from the crate's root; `None` for other crates.
    fn absolute(&self, here: &[String], path: &str) -> Option<Path> {
        let mut segments = path.split("::").map(str::trim).filter(|one| !one.is_empty());
        let mut absolute = here.to_vec();
        let mut first = true;
        let mut rest: Path = vec![];
        for segment in segments.by_ref() {
            match segment {
                "crate" => {
                    absolute.clear();
                    absolute
                        .extend(crate_of(&format!("{}/", here.join("/"))).map(ToOwned::to_owned));
                }
                "super" => drop(absolute.pop()),
                "self" => {}
                name => {
                    if first {
                        let mut child = here.to_vec();
                        child.push(name.to_owned());
                        self.files.get(&child)?;
                    }
                    rest.push(name.to_owned());
                    break;
                }
            }
            first = false;
        }
        rest.extend(segments.map(ToOwned::to_owned));
        absolute.extend(rest);
        Some(absolute)
    }

    /// The file that defines the item at an absolute path.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&String> {
        let modules = (0..=path.len()).rev().find(|end| self.files.contains_key(&path[..*end]))?;
        let (module, item) = path.split_at(modules);
        let file = self.files.get(module)?;
        if !file.ends_with("/mod.rs") && !file.ends_with("/lib.rs") {
            return Some(file);
        }
        let target = self.reexports.get(module)?.get(item.first()?)?;
        (depth > 0).then(|| self.file_of(target, depth - 1)).flatten()
    }

    fn imports(&self, file: &File) -> BTreeSet<String> {
        let here = module_path(&file.path);
        let trees = use_trees(&file.code);
        let used = trees.iter().flat_map(|tree| expand(tree));
        used.chain(inline_paths(&file.code))
            .filter_map(|path| self.absolute(&here, &path))
            .filter_map(|path| self.file_of(&path, 8))
            .filter(|other| **other != file.path)
            .cloned()
            .collect()
    }
}

/// The files that can be reached from `start`.
fn reachable<'a>(graph: &'a BTreeMap<String, BTreeSet<String>>, start: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = graph.get(start).into_iter().flatten().map(String::as_str).collect();
    while let Some(file) = open.pop() {
        if seen.insert(file) {
            open.extend(graph.get(file).into_iter().flatten().map(String::as_str));
        }
    }
    seen
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let files = sources();
    let tree = Tree::new(&files);
    let graph: BTreeMap<String, BTreeSet<String>> = files
        .iter()
        .filter(|file| !file.is_facade())
        .map(|file| (file.path.clone(), tree.imports(file)))
        .collect();
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|file| (file.as_str(), reachable(&graph, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, others) in &reach {
        if others.contains(file) {
            let circle: Vec<&str> = others
                .iter()
                .copied()
                .filter(|other| reach.get(other).is_some_and(|back| back.contains(file)))
                .collect();
            circles.insert(circle);
        }
    }
    let shown: Vec<String> = circles
        .iter()
        .map(|circle| {
            let edges = circle.iter().flat_map(|file| {
                let targets = graph.get(*file).into_iter().flatten();
                targets
                    .filter(|target| circle.contains(&target.as_str()))
                    .map(move |target| format!("  src/{file} imports src/{target}"))
            });
            format!("a circle of {} files:\n{}", circle.len(), edges.collect::<Vec<_>>().join("\n"))
        })
        .collect();
    assert!(shown.is_empty(), "\n{}\n", shown.join("\n"));
}

#[test]
fn use_trees_are_split_into_paths() {
    assert_eq!(
        expand("super::{a::B, c::{D, e::F as G}, h}"),
        ["super::a::B", "super::c::D", "super::c::e::F", "super::h"]
    );
}
