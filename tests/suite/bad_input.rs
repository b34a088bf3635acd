//! Bad input that no transcript can contain: large, binary or unreadable files, a full disk, a
//! closed pipe.

use std::io::{Error, ErrorKind, Write};
use std::path::Path;

use nomad_csi::cli::{Exit, OutputStream};
use nomad_csi_model::diagnostic::Code;

#[cfg(feature = "agent")]
use crate::support::hermetic::Redirect;
use crate::support::hermetic::run_in;

/// Runs a command that must fail with a code, and returns its output.
fn refused(directory: &Path, line: &str, code: Code) -> String {
    let ended = run_in(directory, line, |_| {});
    assert_eq!(ended.exit, Exit::Error, "{}", ended.text);
    assert!(ended.text.contains(&format!("error[{code}]: ")), "{}", ended.text);
    ended.text
}

#[test]
fn unreadable_files_are_named() {
    let directory = tempfile::tempdir().expect("the directory is created");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(directory.path().join(name), bytes).expect("the file is writable");
    };
    write("large.hcl", &vec![b'#'; (16 << 20) + 1]);
    write("latin1.hcl", b"id = \"caf\xe9\"\n");
    write("utf16.hcl", b"\xff\xfei\0d\0");
    write("plain", b"");
    for (argument, code) in [
        ("large.hcl", Code::FilesTooLarge),
        ("latin1.hcl", Code::FilesNotUtf8),
        ("utf16.hcl", Code::FilesNotUtf8),
        ("plain/below.hcl", Code::FilesUnreadable),
        ("a[.hcl", Code::FilesBadPattern),
    ] {
        let output = refused(directory.path(), &format!("validate -f {argument}"), code);
        assert!(output.contains(argument), "{output}");
    }
}

#[test]
fn an_endless_pipe_is_read_up_to_the_limit() {
    let directory = tempfile::tempdir().expect("the directory is created");
    let ended = run_in(directory.path(), "validate -f -", |world| {
        world.stdin.reader = Box::new(std::io::repeat(b'x'));
    });
    assert_eq!(ended.exit, Exit::Error);
    let code = Code::FilesTooLarge;
    assert!(ended.text.contains(&format!("error[{code}]: ")), "{}", ended.text);
}

struct Broken(ErrorKind);

impl Write for Broken {
    fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
        Err(Error::from(self.0))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
    let directory = tempfile::tempdir().expect("the directory is created");
    let to = |kind| {
        run_in(directory.path(), "man", |world| {
            world.stdout = OutputStream { writer: Box::new(Broken(kind)), is_terminal: false };
        })
    };
    let closed = to(ErrorKind::BrokenPipe);
    assert_eq!((closed.exit, closed.text.as_str()), (Exit::Done, ""));
    let full = to(ErrorKind::StorageFull);
    assert_eq!(full.exit, Exit::Error);
    let code = Code::CliOutputFailed;
    assert!(full.text.contains(&format!("error[{code}]: ")), "{}", full.text);
}

/// The error is reported, and no process remains.
#[cfg(feature = "agent")]
#[test]
fn an_embedded_plugin_that_does_not_start_is_reported() {
    let directory = tempfile::tempdir().expect("the directory is created");
    let ended = run_in(directory.path(), "volume status --embedded=state", |world| {
        world.servers = std::sync::Arc::new(Redirect::with_plugin_program("/bin/false"));
    });
    assert_eq!(ended.exit, Exit::Error, "{}", ended.text);
    let code = Code::AgentPluginNotHealthy;
    assert!(ended.text.contains(&format!("error[{code}]: ")), "{}", ended.text);
}

/// A link in a tree of specifications leads to a pipe of the command, such as a file of variables that was decrypted.
#[cfg(target_os = "linux")]
#[test]
fn nothing_of_a_pipe_that_a_link_of_the_tree_leads_to_is_shown() {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    let base = tempfile::tempdir().expect("the directory is created");
    let text = b"db_url = \"postgres://u:hunter2@h\"\n";
    let check = |descriptor: i32, line: &str| {
        let link = base.path().join("linked.hcl");
        std::os::unix::fs::symlink(format!("/dev/fd/{descriptor}"), &link).expect("a link");
        let ended = run_in(base.path(), line, |_| {});
        assert_eq!(ended.exit, Exit::Error, "{line}: {}", ended.text);
        assert!(!ended.text.contains("hunter2"), "{line}: {}", ended.text);
        std::fs::remove_file(link).expect("the link is removable");
    };
    for line in ["validate linked.hcl", "validate -o json linked.hcl", "fmt --diff linked.hcl"] {
        let (end, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(text).expect("it fits");
        drop(writer);
        check(end.as_raw_fd(), line);
        let mut deleted = tempfile::tempfile().expect("a file without a name");
        deleted.write_all(text).expect("it is written");
        check(deleted.as_raw_fd(), line);
    }
}

/// A link in a tree of specifications leads to a file that its author cannot read, but the person who
/// runs the command can.
#[cfg(unix)]
#[test]
fn nothing_of_a_file_outside_the_tree_is_shown() {
    use std::os::unix::fs::symlink;
    let base = tempfile::tempdir().expect("the directory is created");
    let path = |name: &str| base.path().join(name);
    std::fs::create_dir_all(path("tree/inner")).expect("a directory");
    for (name, text) in [
        ("outside.key", "hunter2-key hunter2\n"),
        ("outside.hcl", "hunter2 = 1\nid = \"hunter2\"\n"),
        ("tree/inner/own.hcl", "own-key own\n"),
    ] {
        std::fs::write(path(name), text).expect("the file is writable");
    }
    let code = Code::FilesForeignLink;
    for target in ["outside.key", "outside.hcl"] {
        let link = path("tree/linked.hcl");
        symlink(path(target), &link).expect("a link");
        for line in [
            "validate -f linked.hcl",
            "validate -f .",
            "validate -f *.hcl",
            "validate -f linked.hcl -o json",
            "apply -f linked.hcl",
        ] {
            let ended = run_in(&path("tree"), line, |_| {});
            assert_eq!(ended.exit, Exit::Error, "{line}: {}", ended.text);
            assert!(ended.text.contains(code.as_str()), "{line}: {}", ended.text);
            assert!(!ended.text.contains("hunter2"), "{line}: {}", ended.text);
        }
        std::fs::remove_file(link).expect("the link is removable");
    }
    // A link within the tree is shown as the file itself.
    symlink(path("tree/inner/own.hcl"), path("tree/linked.hcl")).expect("a link");
    let ended = run_in(&path("tree"), "validate -f linked.hcl", |_| {});
    assert!(ended.text.contains("own-key"), "{}", ended.text);
    // A valid specification is accepted wherever it is.
    let valid = include_str!("../../specs/hostpath.hcl");
    std::fs::write(path("outside.hcl"), valid).expect("the file is writable");
    std::fs::remove_file(path("tree/linked.hcl")).expect("the link is removable");
    symlink(path("outside.hcl"), path("tree/linked.hcl")).expect("a link");
    let ended = run_in(&path("tree"), "validate -f linked.hcl", |_| {});
    assert_eq!(ended.exit, Exit::Done, "{}", ended.text);
}
