//! Divides the files of a command into runs: one for each directory whose files name a set.
//!
//! A run has the files of its directory, and those below it whose directories name no set of their own. Files of other
//! directories without a set, such as classes and variables, belong to every run. If the files of at most one directory
//! name a set, or if all name the same one in plain text, there is one run with all files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::output_place::lexically;
use nomad_csi_spec::NamedSet;

/// A file of a command.
#[derive(Clone, Debug)]
pub struct FileOfCommand<'a> {
    /// Its name, as the command line and the directories give it.
    pub name: &'a str,
    /// The set that it names.
    pub set: Option<NamedSet>,
}

/// Files that are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRun {
    /// The directory that names the set, or the stream; `None` if there is only one run.
    pub directory: Option<String>,
    /// The indexes of the files, in their order.
    pub files: Vec<usize>,
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FilePlace {
    Directory(PathBuf),
    /// Standard input, or what a shell gives a name to.
    Stream(String),
}

impl FilePlace {
    fn of(base_directory: &Path, name: &str) -> Self {
        let path = base_directory.join(name);
        if name == STDIN || ["/dev", "/proc"].iter().any(|root| path.starts_with(root)) {
            return Self::Stream(name.to_owned());
        }
        Self::Directory(lexically(path.parent().unwrap_or(&path)))
    }

    /// Returns the place of a file of this name, as it is shown.
    fn shown(&self, name: &str) -> String {
        match self {
            Self::Stream(name) => name.clone(),
            Self::Directory(_) => match Path::new(name).parent().and_then(Path::to_str) {
                Some("") | None => ".".to_owned(),
                Some(directory) => directory.to_owned(),
            },
        }
    }

    /// Returns the place among `places` that a file here belongs to: this one, or the nearest directory above.
    fn owner(&self, places: &BTreeMap<&Self, usize>) -> Option<usize> {
        match self {
            Self::Stream(_) => places.get(self).copied(),
            Self::Directory(path) => path
                .ancestors()
                .find_map(|above| places.get(&Self::Directory(above.to_owned())).copied()),
        }
    }
}

/// The name that standard input has as a file.
const STDIN: &str = "<stdin>";

/// Returns whether all files of these names are in one directory, or are one stream.
pub fn are_in_one_place<'n>(
    base_directory: &Path,
    mut names: impl Iterator<Item = &'n str>,
) -> bool {
    let place = |name: &str| FilePlace::of(base_directory, name);
    let Some(first) = names.next().map(place) else {
        return true;
    };
    names.all(|name| place(name) == first)
}

/// Divides files into runs, in the order in which their sets are first named. Relative names start from `base_directory`.
pub fn divide_into_runs(base_directory: &Path, files: &[FileOfCommand<'_>]) -> Vec<SetRun> {
    let places: Vec<FilePlace> =
        files.iter().map(|file| FilePlace::of(base_directory, file.name)).collect();
    let mut runs: Vec<SetRun> = vec![];
    let mut run_of: BTreeMap<&FilePlace, usize> = BTreeMap::new();
    for (file, place) in files.iter().zip(&places).filter(|(file, _)| file.set.is_some()) {
        run_of.entry(place).or_insert_with(|| {
            runs.push(SetRun { directory: Some(place.shown(file.name)), files: vec![] });
            runs.len() - 1
        });
    }
    if runs.len() < 2 || names_one_set(files) {
        return vec![SetRun { directory: None, files: (0..files.len()).collect() }];
    }
    for (index, place) in places.iter().enumerate() {
        match place.owner(&run_of) {
            Some(run) => runs[run].files.push(index),
            None => runs.iter_mut().for_each(|run| run.files.push(index)),
        }
    }
    runs
}

/// Returns whether all files that name a set name the same one in plain text.
fn names_one_set(files: &[FileOfCommand<'_>]) -> bool {
    let mut sets = files.iter().filter_map(|file| file.set.as_ref());
    match sets.next() {
        Some(first @ NamedSet::Literal(_)) => sets.all(|set| set == first),
        Some(NamedSet::Evaluated) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Divides files; a set that starts with `=` is an expression. Returns each run as its directory and its files.
    fn divided(files: &[(&str, Option<&str>)]) -> Vec<String> {
        let files: Vec<_> = files
            .iter()
            .map(|(name, set)| FileOfCommand {
                name,
                set: set.map(|set| match set.starts_with('=') {
                    true => NamedSet::Evaluated,
                    false => NamedSet::Literal(set.to_owned()),
                }),
            })
            .collect();
        let shown = |run: SetRun| {
            let names: Vec<_> = run.files.iter().map(|index| files[*index].name).collect();
            format!("{}: {}", run.directory.as_deref().unwrap_or("all"), names.join(" "))
        };
        divide_into_runs(Path::new("/repository"), &files).into_iter().map(shown).collect()
    }

    #[test]
    fn files_of_one_place_need_no_division() {
        let base = Path::new("/repository");
        for (names, expected) in [
            (&[][..], true),
            (&["a/v.hcl"], true),
            (&["a/v.hcl", "./a/w.hcl", "/repository/a/x.hcl"], true),
            (&["a/v.hcl", "a/b/w.hcl"], false),
            (&["v.hcl", "<stdin>"], false),
            (&["/dev/fd/62", "/dev/fd/63"], false),
        ] {
            assert_eq!(are_in_one_place(base, names.iter().copied()), expected, "{names:?}");
        }
    }

    #[test]
    fn one_directory_with_a_set_is_one_run_with_all_files() {
        for files in [
            &[("a/v.hcl", None), ("b/v.hcl", None)][..],
            &[("a/v.hcl", Some("s")), ("b/v.hcl", None)],
            &[("a/v.hcl", Some("s")), ("a/w.hcl", Some("t")), ("b/v.hcl", None)],
            &[("a/v.hcl", Some("s")), ("./a/w.hcl", Some("t")), ("b/../a/x.hcl", Some("u"))],
            &[("a/v.hcl", Some("s")), ("/repository/a/w.hcl", Some("=t"))],
            &[],
        ] {
            let all: Vec<_> = files.iter().map(|(name, _)| *name).collect();
            assert_eq!(divided(files), [format!("all: {}", all.join(" "))]);
        }
    }

    #[test]
    fn directories_that_name_the_same_set_in_plain_text_are_one_run() {
        let files = [("a/v.hcl", Some("s")), ("b/v.hcl", Some("s")), ("c/v.hcl", None)];
        assert_eq!(divided(&files), ["all: a/v.hcl b/v.hcl c/v.hcl"]);
        let evaluated = [("a/v.hcl", Some("=s")), ("b/v.hcl", Some("=s"))];
        assert_eq!(divided(&evaluated), ["a: a/v.hcl", "b: b/v.hcl"]);
        let three = [("a/v.hcl", Some("s")), ("b/v.hcl", Some("s")), ("c/v.hcl", Some("t"))];
        assert_eq!(divided(&three), ["a: a/v.hcl", "b: b/v.hcl", "c: c/v.hcl"]);
    }

    #[test]
    fn a_run_has_its_directory_and_what_is_below_and_every_run_has_what_is_shared() {
        let files = [
            ("shared/classes.hcl", None),
            ("teams/a/set.hcl", Some("a")),
            ("teams/a/more/v.hcl", None),
            ("teams/b/v.hcl", None),
            ("teams/b/set.hcl", Some("=b")),
            ("teams/variables.hcl", None),
            ("<stdin>", None),
        ];
        assert_eq!(
            divided(&files),
            [
                "teams/a: shared/classes.hcl teams/a/set.hcl teams/a/more/v.hcl teams/variables.hcl <stdin>",
                "teams/b: shared/classes.hcl teams/b/v.hcl teams/b/set.hcl teams/variables.hcl <stdin>",
            ]
        );
    }

    #[test]
    fn a_directory_with_a_set_in_another_one_is_not_part_of_that_run() {
        let files = [
            ("set.hcl", Some("root")),
            ("v.hcl", None),
            ("inner/set.hcl", Some("inner")),
            ("inner/deep/v.hcl", None),
            ("other/v.hcl", None),
        ];
        assert_eq!(
            divided(&files),
            [".: set.hcl v.hcl other/v.hcl", "inner: inner/set.hcl inner/deep/v.hcl"]
        );
    }

    #[test]
    fn a_stream_with_a_set_is_a_run_of_its_own() {
        let files = [("<stdin>", Some("s")), ("a/v.hcl", Some("t")), ("b/v.hcl", None)];
        assert_eq!(divided(&files), ["<stdin>: <stdin> b/v.hcl", "a: a/v.hcl b/v.hcl"]);
        let pipes = [("/dev/fd/63", Some("s")), ("/dev/fd/62", Some("t"))];
        assert_eq!(divided(&pipes), ["/dev/fd/63: /dev/fd/63", "/dev/fd/62: /dev/fd/62"]);
    }

    #[test]
    fn a_directory_outside_the_base_directory_is_told_from_one_within() {
        let files =
            [("../a/set.hcl", Some("outer")), ("a/set.hcl", Some("inner")), ("../a/v.hcl", None)];
        assert_eq!(divided(&files), ["../a: ../a/set.hcl ../a/v.hcl", "a: a/set.hcl"]);
    }

    #[test]
    fn a_hundred_directories_are_a_hundred_runs_in_the_order_of_the_files() {
        let names: Vec<String> =
            (0..100).map(|index| format!("{:02}/set.hcl", 99 - index)).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), Some(name.as_str()))).collect();
        let expected: Vec<_> = names.iter().map(|name| format!("{}: {name}", &name[..2])).collect();
        assert_eq!(divided(&files), expected);
    }
}
