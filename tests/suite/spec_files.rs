//! The files of `-f`, and the errors of unreadable files.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use nomad_csi_client::files::{self, MAX_BYTES, MAX_TOTAL_BYTES, PIPE_LIMIT};
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_spec::Syntax;
use tempfile::TempDir;

struct Found {
    /// Name, syntax and text of each.
    texts: Vec<(String, Syntax, String)>,
    /// Code and message of each problem.
    problems: Vec<(String, String)>,
}

impl Found {
    fn names(&self) -> Vec<&str> {
        self.texts.iter().map(|(name, ..)| name.as_str()).collect()
    }

    fn codes(&self) -> Vec<&str> {
        self.problems.iter().map(|(code, _)| code.as_str()).collect()
    }
}

fn find_with(
    directory: &Path,
    arguments: &[&str],
    stdin: &mut dyn Read,
    syntax: Option<Syntax>,
) -> Found {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let mut request = files::SpecFilesRequest {
        arguments: &arguments,
        base_directory: directory,
        stdin,
        syntax,
        pipe_limit: PIPE_LIMIT,
        read_before: &files::StreamTexts::default(),
        shows_only_tree: false,
    };
    let texts = files::read_spec_files(&mut request, &mut sources, &mut diagnostics);
    let text = |(id, syntax)| (sources.name(id).to_owned(), syntax, sources.text(id).to_string());
    Found {
        texts: texts.into_iter().map(text).collect(),
        problems: diagnostics
            .iter()
            .map(|one| (one.code.to_string(), one.message.clone()))
            .collect(),
    }
}

fn find(directory: &Path, arguments: &[&str]) -> Found {
    find_with(directory, arguments, &mut io::empty(), None)
}

/// Creates a directory of files, each with its own name as content.
fn directory(files: &[&str]) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    for file in files {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
        fs::write(path, file).expect("a file");
    }
    directory
}

#[test]
fn a_directory_contributes_its_specifications_in_order() {
    let directory = directory(&[
        "specs/b.hcl",
        "specs/a.yaml",
        "specs/c/d.yml",
        "specs/c/e.JSON",
        "specs/job.nomad.hcl",
        "specs/ebs.plugin.json",
        "specs/.hidden.hcl",
        "specs/.git/x.hcl",
        "specs/README.md",
        "specs/volume",
    ]);
    let found = find(directory.path(), &["specs/"]);
    assert_eq!(found.names(), ["specs/a.yaml", "specs/b.hcl", "specs/c/d.yml", "specs/c/e.JSON"]);
    let syntaxes: Vec<_> = found.texts.iter().map(|(_, syntax, _)| *syntax).collect();
    assert_eq!(syntaxes, [Syntax::Yaml, Syntax::Hcl, Syntax::Yaml, Syntax::Json]);
    assert_eq!(found.codes(), Vec::<&str>::new());
}

#[test]
fn arguments_keep_their_order_and_no_file_is_read_twice() {
    let directory = directory(&["a.hcl", "b.hcl", "c.hcl"]);
    let found = find(directory.path(), &["b.hcl", ".", "./a.hcl", "*.hcl"]);
    assert_eq!(found.names(), ["b.hcl", "./a.hcl", "./c.hcl"]);
    assert_eq!(found.codes(), Vec::<&str>::new());
}

#[test]
fn a_named_file_is_read_whatever_its_name() {
    let directory = directory(&["x.nomad.hcl", ".y.hcl", "volume", "z.txt"]);
    let found = find(directory.path(), &["x.nomad.hcl", ".y.hcl", "volume", "z.txt"]);
    assert_eq!(found.names(), ["x.nomad.hcl", ".y.hcl", "volume", "z.txt"]);
    assert!(found.texts.iter().all(|(_, syntax, _)| *syntax == Syntax::Hcl));
    let absolute = directory.path().join("volume");
    let found = find(Path::new("/"), &[absolute.to_str().expect("UTF-8")]);
    assert_eq!(found.texts[0].2, "volume");
}

#[test]
fn patterns_contribute_matching_files() {
    let directory =
        directory(&["a/one.hcl", "a/two.yaml", "a/b/three.hcl", "a/.four.hcl", "five[1].hcl"]);
    for (pattern, expected) in [
        ("a/*.hcl", vec!["a/one.hcl"]),
        ("a/*", vec!["a/one.hcl", "a/two.yaml"]),
        ("a/**/*.hcl", vec!["a/b/three.hcl", "a/one.hcl"]),
        ("*/t*.{hcl,yaml}", vec!["a/two.yaml"]),
        ("**/three.hcl", vec!["a/b/three.hcl"]),
        ("a/?ne.hcl", vec!["a/one.hcl"]),
        ("five[1].hcl", vec!["five[1].hcl"]),
    ] {
        let found = find(directory.path(), &[pattern]);
        assert_eq!(found.names(), expected, "{pattern}");
        assert_eq!(found.codes(), Vec::<&str>::new(), "{pattern}");
    }
    assert_eq!(find(directory.path(), &["*.json"]).codes(), ["files/not-found"]);
    assert_eq!(find(directory.path(), &["nowhere/*.hcl"]).codes(), ["files/not-found"]);
    assert_eq!(find(directory.path(), &["a/[.hcl"]).codes(), ["files/bad-pattern"]);
}

#[test]
fn stdin_is_json_if_it_starts_so_otherwise_the_given_syntax() {
    let directory = directory(&[]);
    for (text, syntax, expected) in [
        ("id = 1", None, Syntax::Hcl),
        ("\n {\"id\": 1}", None, Syntax::Json),
        ("id: 1", Some(Syntax::Yaml), Syntax::Yaml),
        ("{id: 1}", Some(Syntax::Yaml), Syntax::Yaml),
        ("", None, Syntax::Hcl),
    ] {
        let found = find_with(directory.path(), &["-", "-"], &mut text.as_bytes(), syntax);
        assert_eq!(found.texts, [("<stdin>".to_owned(), expected, text.to_owned())]);
    }
}

#[test]
fn a_byte_order_mark_is_removed() {
    let directory = directory(&[]);
    fs::write(directory.path().join("a.hcl"), "\u{feff}id = 1").expect("a file");
    assert_eq!(find(directory.path(), &["a.hcl"]).texts[0].2, "id = 1");
}

#[test]
fn unreadable_files_are_reported_and_the_rest_is_read() {
    let directory = directory(&["good.hcl", "empty/README.md"]);
    let path = directory.path();
    fs::write(path.join("latin.hcl"), b"a\nid = \"\xe4\"").expect("a file");
    fs::write(path.join("wide.hcl"), b"\xff\xfei\0d\0").expect("a file");
    let found = find(
        path,
        &["missing.hcl", "empty", "latin.hcl", "wide.hcl", "good.hcl/x.hcl", "good.hcl"],
    );
    assert_eq!(found.names(), ["good.hcl"]);
    assert_eq!(
        found.codes(),
        [
            "files/not-found",
            "files/no-specs",
            "files/not-utf8",
            "files/not-utf8",
            "files/unreadable"
        ]
    );
    assert_eq!(found.problems[2].1, "`latin.hcl` is not UTF-8: invalid byte at line 2, column 7");
    assert_eq!(found.problems[4].1, "cannot read `good.hcl/x.hcl`: not a directory");
}

/// The size is checked before the file is read: a sparse file of 100 GiB.
#[test]
fn a_file_above_16_mib_is_refused_without_reading() {
    let directory = directory(&[]);
    let path = directory.path().join("large.hcl");
    fs::File::create(&path).and_then(|file| file.set_len(100 << 30)).expect("a sparse file");
    let found = find(directory.path(), &["large.hcl"]);
    assert_eq!(found.codes(), ["files/too-large"]);
    let whole = usize::try_from(MAX_BYTES).expect("16 MiB");
    fs::write(&path, vec![b'#'; whole]).expect("a file");
    assert_eq!(find(directory.path(), &["large.hcl"]).texts.len(), 1);
    let found = find_with(directory.path(), &["-"], &mut io::repeat(b'#'), None);
    assert_eq!(found.codes(), ["files/too-large"], "an endless stream is read up to the limit");
}

/// All files together have a limit, too: the last file is one byte too many.
#[test]
fn files_above_128_mib_together_are_refused_once() {
    let directory = directory(&[]);
    for at in 0..8 {
        let file = fs::File::create(directory.path().join(format!("{at}.hcl")));
        file.and_then(|file| file.set_len(MAX_BYTES)).expect("a sparse file");
    }
    assert_eq!(8 * MAX_BYTES, MAX_TOTAL_BYTES);
    let found = find(directory.path(), &["."]);
    assert_eq!((found.codes().len(), found.texts.len()), (0, 8));
    for name in ["8.hcl", "9.hcl"] {
        fs::write(directory.path().join(name), "x").expect("a file");
    }
    let found = find(directory.path(), &["."]);
    assert_eq!(found.codes(), ["files/too-large"]);
    assert_eq!(found.texts.len(), 8);
}

#[test]
fn an_unreadable_stdin_is_reported() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::BrokenPipe))
        }
    }
    let found = find_with(Path::new("."), &["-"], &mut Broken, None);
    assert_eq!(found.codes(), ["files/unreadable"]);
}

#[cfg(unix)]
#[test]
fn cyclic_links_are_followed_once() {
    use std::os::unix::fs::symlink;
    let directory = directory(&["specs/a.hcl", "other/b.hcl"]);
    let path = directory.path();
    symlink("..", path.join("specs/up")).expect("a link");
    symlink(path.join("specs"), path.join("specs/self")).expect("a link");
    symlink(path.join("other/b.hcl"), path.join("specs/b.hcl")).expect("a link");
    symlink("nowhere", path.join("specs/broken.hcl")).expect("a link");
    symlink("nowhere", path.join("specs/broken.txt")).expect("a link");
    let found = find(path, &["specs"]);
    let mut texts: Vec<_> = found.texts.iter().map(|(.., text)| text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["other/b.hcl", "specs/a.hcl"]);
    assert_eq!(
        found.codes(),
        ["files/not-found"],
        "a broken link with the name of a specification"
    );
}

/// A saved plan may name any file; what someone else chose shows nothing outside the working directory.
#[test]
fn nothing_is_shown_of_a_file_that_someone_else_chose() {
    let inside = directory(&["a.hcl"]);
    let outside = directory(&["shadow.hcl"]);
    let chosen = outside.path().join("shadow.hcl").display().to_string();
    for (shows_only_tree, is_shown) in [(false, true), (true, false)] {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let mut request = files::SpecFilesRequest {
            arguments: &["a.hcl".to_owned(), chosen.clone()],
            base_directory: inside.path(),
            stdin: &mut io::empty(),
            syntax: None,
            pipe_limit: PIPE_LIMIT,
            read_before: &files::StreamTexts::default(),
            shows_only_tree,
        };
        let texts = files::read_spec_files(&mut request, &mut sources, &mut diagnostics);
        let withheld: Vec<bool> =
            texts.iter().map(|(source, _)| sources.is_withheld(*source)).collect();
        assert_eq!(withheld, [false, !is_shown]);
    }
}

/// The author of a change can put a link at the place of a directory.
#[cfg(unix)]
#[test]
fn nothing_is_shown_of_a_directory_that_a_link_in_the_tree_leads_to() {
    use std::os::unix::fs::symlink;
    let inside = directory(&["real/a.hcl"]);
    let outside = directory(&["private/b.hcl"]);
    symlink(outside.path(), inside.path().join("out")).expect("a link");
    symlink("real", inside.path().join("in")).expect("a link");
    for (argument, is_withheld) in [
        ("real", false),
        ("in", false),
        ("out", true),
        ("./out/private", true),
        ("out/private/b.hcl", true),
        ("out/*/*.hcl", true),
        (&outside.path().display().to_string(), false),
    ] {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let mut request = files::SpecFilesRequest {
            arguments: &[argument.to_owned()],
            base_directory: inside.path(),
            stdin: &mut io::empty(),
            syntax: None,
            pipe_limit: PIPE_LIMIT,
            read_before: &files::StreamTexts::default(),
            shows_only_tree: false,
        };
        let texts = files::read_spec_files(&mut request, &mut sources, &mut diagnostics);
        assert_eq!(texts.len(), 1, "{argument}");
        for (source, _) in texts {
            assert_eq!(sources.is_withheld(source), is_withheld, "{argument}");
        }
    }
}

/// Makes a pipe with a name.
#[cfg(unix)]
fn pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
}

#[cfg(unix)]
#[test]
fn a_pipe_without_a_writer_ends_at_its_limit() {
    let directory = directory(&[]);
    pipe(&directory.path().join("pipe.hcl"));
    let limit = std::time::Duration::from_millis(20);
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let mut request = files::SpecFilesRequest {
        arguments: &["pipe.hcl".to_owned()],
        base_directory: directory.path(),
        stdin: &mut io::empty(),
        syntax: None,
        pipe_limit: limit,
        read_before: &files::StreamTexts::default(),
        shows_only_tree: false,
    };
    let texts = files::read_spec_files(&mut request, &mut sources, &mut diagnostics);
    assert!(texts.is_empty());
    let problem = diagnostics.iter().next().expect("a problem");
    assert_eq!(problem.code.as_str(), "files/timed-out");
    let expected = "cannot read `pipe.hcl`: nothing was written to it within 0s";
    assert_eq!(problem.message, expected);
}

#[cfg(unix)]
#[test]
fn a_pipe_with_a_writer_is_read_to_its_end() {
    let directory = directory(&[]);
    let path = directory.path().join("pipe.hcl");
    pipe(&path);
    let writer = std::thread::spawn(move || fs::write(path, "id = \"a\"\n"));
    let found = find(directory.path(), &["pipe.hcl"]);
    writer.join().expect("it ends").expect("it is written");
    let texts: Vec<_> = found.texts.iter().map(|(.., text)| text.as_str()).collect();
    assert_eq!(texts, ["id = \"a\"\n"]);
}

/// As a shell makes them for `<(…)` and for standard input: links to what has no other name.
#[cfg(target_os = "linux")]
#[test]
fn what_is_only_open_is_read_by_the_link_to_it() {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    let link = |file: &dyn std::os::fd::AsRawFd| format!("/dev/fd/{}", file.as_raw_fd());
    let (end, mut writer) = io::pipe().expect("a pipe");
    writer.write_all(b"id = \"pipe\"\n").expect("it fits");
    drop(writer);
    let mut deleted = tempfile::tempfile().expect("a file without a name");
    deleted.write_all(b"id = \"deleted\"\n").expect("it fits");
    let process = format!("/proc/{}/fd/{}", std::process::id(), deleted.as_raw_fd());
    let directory = directory(&[]);
    let found = find(directory.path(), &[&link(&end), &process]);
    let texts: Vec<_> = found.texts.iter().map(|(.., text)| text.as_str()).collect();
    assert_eq!(texts, ["id = \"pipe\"\n", "id = \"deleted\"\n"]);
    assert_eq!(found.codes(), [""; 0]);
}
