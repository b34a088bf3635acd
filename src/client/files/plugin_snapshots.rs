//! Reads the directory of `--plugins`: every `*.plugin.json` in it, and nothing below it.
//!
//! A file that cannot be used is an error, because a rule that it would break would not be checked. So is a directory
//! without such a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::specs::reason;
use super::text::read_within;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_model::{PluginId, one_line};
use nomad_csi_plan::{PluginSnapshot, PluginSnapshots, read_snapshot};

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The most files of a directory.
const MAX_FILES: usize = 1000;

const SUFFIX: &str = ".plugin.json";

/// Reads the plugins of a directory, which `name` shows in messages. Blocks while reading.
///
/// # Errors
/// Returns every problem of every file, with places in `sources`.
pub fn read_plugin_snapshots(
    directory: &Path,
    name: &str,
    sources: &mut SourceMap,
) -> Result<PluginSnapshots, Diagnostics> {
    let files = list(directory, name)?;
    let mut problems = Diagnostics::default();
    let mut found: BTreeMap<PluginId, PluginSnapshot> = BTreeMap::new();
    for file in files {
        let shown = format!("{}/{file}", name.trim_end_matches('/'));
        match read_one(&directory.join(&file), &shown, sources) {
            Ok(snapshot) => {
                let id = snapshot.plugin.summary.id.clone();
                let Some(earlier) = found.insert(id.clone(), snapshot) else {
                    continue;
                };
                let (earlier, later) = (one_line(&earlier.file), one_line(&shown));
                let message = format!("`{earlier}` and `{later}` are both of plugin `{id}`");
                let problem = Diagnostic::error(Code::PluginSnapshot, message);
                problems.push(problem.help("remove one of the two files"));
            }
            Err(problem) => problems.extend(problem),
        }
    }
    match problems.has_errors() {
        true => Err(problems),
        false => Ok(found.into_values().collect()),
    }
}

/// Returns the names of the files, in order.
fn list(directory: &Path, name: &str) -> Result<Vec<String>, Diagnostics> {
    let shown = one_line(name);
    let unreadable = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => Code::FilesNotFound,
            _ => Code::FilesUnreadable,
        };
        let message =
            format!("cannot read the directory `{shown}` of `--plugins`: {}", reason(&error));
        Diagnostics::from(Diagnostic::error(code, message).help(code.advice()))
    };
    let mut files = vec![];
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let is_one = file.ends_with(SUFFIX) && !file.starts_with('.');
        if !is_one || !fs::metadata(entry.path()).is_ok_and(|found| found.is_file()) {
            continue;
        }
        files.push(file);
        if files.len() > MAX_FILES {
            let message =
                format!("directory `{shown}` has more than {MAX_FILES} `*{SUFFIX}` files");
            let problem = Diagnostic::error(Code::FilesTooLarge, message);
            return Err(problem.help("keep the files of the plugins that the volumes name").into());
        }
    }
    if files.is_empty() {
        let message = format!("directory `{shown}` of `--plugins` has no `*{SUFFIX}` file");
        let help = format!(
            "run `nomad-csi plugin snapshot ID --out DIRECTORY/ID{SUFFIX}` for each plugin"
        );
        return Err(Diagnostic::error(Code::PluginSnapshot, message).help(help).into());
    }
    files.sort();
    Ok(files)
}

fn read_one(
    path: &Path,
    shown: &str,
    sources: &mut SourceMap,
) -> Result<PluginSnapshot, Diagnostics> {
    let text = read_within(path, shown, MAX_FILE_BYTES)?;
    let file = shown.rsplit('/').next().unwrap_or(shown);
    let id = file.strip_suffix(SUFFIX).unwrap_or(file);
    read_snapshot(shown, id, &text).map_err(|problem| {
        let end = text[problem.at..].chars().next().map_or(0, char::len_utf8);
        let source = sources.add(shown, text.as_str());
        let span = SourceMap::span(source, problem.at..problem.at + end);
        let message = format!("cannot use `{}`: {}", one_line(shown), problem.why);
        let refused = Diagnostic::error(Code::PluginSnapshot, message).label(span, "");
        refused.help(Code::PluginSnapshot.advice()).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: &str = r#"{"version":1,"name":"p","vendor_version":"1","services":[],"controller_capabilities":null,"node_capabilities":null}"#;

    fn read(files: &[(&str, &str)]) -> Result<Vec<String>, Vec<(Code, String)>> {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("below.plugin.json")).unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let mut sources = SourceMap::default();
        match read_plugin_snapshots(directory.path(), "plugins/", &mut sources) {
            Ok(found) => Ok(found.ids().map(ToString::to_string).collect()),
            Err(problems) => Err(problems
                .iter()
                .map(|one| {
                    let span = one.labels.first().map(|label| sources.location(label.span));
                    let place = span.map(|at| format!(" at {}:{}", at.line, at.column));
                    (one.code, format!("{}{}", one.message, place.unwrap_or_default()))
                })
                .collect()),
        }
    }

    #[test]
    fn each_file_of_a_plugin_is_read_and_nothing_else() {
        let files = [
            ("ceph.plugin.json", PROBE),
            ("ebs0.plugin.json", PROBE),
            (".hidden.plugin.json", "{"),
            ("volume.json", "{"),
        ];
        assert_eq!(read(&files).unwrap(), ["ceph", "ebs0"]);
    }

    #[test]
    fn every_broken_file_is_named_with_its_place() {
        let kind = r#"{"version":1,"kind":"plugin-snapshot","id":"ceph","provider":"p","controller_required":false,
            "controller_capabilities":[],"node_capabilities":[],"topologies":[]}"#;
        let found = read(&[
            ("a.plugin.json", "{\"version\":1,\n  oops}"),
            ("b.plugin.json", kind),
            ("ceph.plugin.json", PROBE),
        ]);
        let broken = "cannot use `plugins/a.plugin.json`: key must be a string at 2:3";
        let twice =
            "`plugins/b.plugin.json` and `plugins/ceph.plugin.json` are both of plugin `ceph`";
        let code = Code::PluginSnapshot;
        assert_eq!(found, Err(vec![(code, broken.to_owned()), (code, twice.to_owned())]));
    }

    #[test]
    fn a_directory_without_a_file_and_too_much_are_refused() {
        let codes = |found: Result<_, Vec<(Code, String)>>| {
            found.unwrap_err().iter().map(|(code, _)| *code).collect::<Vec<_>>()
        };
        assert_eq!(codes(read(&[("volume.json", "{}")])), [Code::PluginSnapshot]);
        let large = format!("{PROBE}{}", " ".repeat(1 << 20));
        assert_eq!(codes(read(&[("a.plugin.json", &large)])), [Code::FilesTooLarge]);
        let none = read_plugin_snapshots(Path::new("/none"), "none", &mut SourceMap::default());
        let code = none.unwrap_err().iter().next().map(|one| one.code);
        assert_eq!(code, Some(Code::FilesNotFound));
        let directory = tempfile::tempdir().unwrap();
        for at in 0..=MAX_FILES {
            fs::write(directory.path().join(format!("{at}.plugin.json")), PROBE).unwrap();
        }
        let many = read_plugin_snapshots(directory.path(), "p", &mut SourceMap::default());
        let code = many.unwrap_err().iter().next().map(|one| one.code);
        assert_eq!(code, Some(Code::FilesTooLarge));
    }
}
