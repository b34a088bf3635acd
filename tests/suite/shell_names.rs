//! Completion in interactive shells, with names that would run programs or change words if a shell read them as code.
//!
//! `script` gives each shell a terminal. A stub in front of the program writes the arguments that the shell passes
//! after the completion, and asks the real program for completions.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use nomad_csi::cli::{Shell, registration};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::support::http_server::{ReceivedRequest, Reply, Server, json as json_reply};
use crate::support::wait::until;

/// A name that every shell offers.
const PLAIN: &str = "vzz";
/// Names that are one word in the right quotes.
const QUOTABLE: [&str; 29] = [
    "v`touch PWNED`",
    "v;touch PWNED",
    "v$(touch PWNED)",
    "v${HOME}",
    "v$HOME",
    "v*",
    "v?",
    "v[a-z]",
    "v{a,b}",
    "v x",
    "v  --help",
    "v'q",
    "v\"q",
    "v'; touch PWNED; '",
    "v\"; touch PWNED; \"",
    "v\\x",
    "v\\",
    "v&touch PWNED",
    "v|touch PWNED",
    "v>PWNED",
    "v<x",
    "v(x)",
    "v#x",
    "v~",
    "v!x",
    "v^x",
    "v%x",
    "vü日🦀",
    "v/x y",
];
/// Names that no shell offers.
const NOT_OFFERED: [&str; 6] =
    ["v\ntouch PWNED", "v\rtouch PWNED", "v\tx", "v\u{1b}[2Jx", "v\u{7f}x", "v\u{202e}x"];

/// Control-C.
const INTERRUPT: char = '\u{3}';
/// How often the call of the program is looked for before the keys are pressed again.
const LOOKS_BEFORE_AGAIN: u32 = 1000;

/// A server with volumes of these names.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<String>>>);

impl Names {
    fn set(&self, names: &[&str]) {
        let names = names.iter().map(ToString::to_string).collect();
        *self.0.lock().expect("unpoisoned") = names;
    }

    fn answer(&self, seen: &ReceivedRequest) -> Reply {
        let line = seen.line();
        if line.starts_with("GET /v1/regions") {
            return json_reply(r#"["global"]"#);
        }
        if !line.starts_with("GET /v1/volumes?") {
            return json_reply(r#"{"config":{"Version":{"Version":"2.0.5"}}}"#);
        }
        let names = self.0.lock().expect("unpoisoned");
        let volumes =
            names.iter().map(|id| json!({"ID": id, "Namespace": "default", "PluginID": "ebs0"}));
        json_reply(&volumes.collect::<serde_json::Value>().to_string())
    }
}

/// An interactive shell with the completions of this program, in a directory with one file.
struct Session {
    home: tempfile::TempDir,
    keys: ChildStdin,
    process: Child,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Returns whether the program is installed.
fn is_installed(program: &str) -> bool {
    let tried =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

impl Session {
    /// Starts a shell; `None` with a message if it is not installed.
    #[expect(clippy::print_stderr, reason = "a skipped test must be visible")]
    fn start(shell: Shell, server: &str) -> Option<Self> {
        let name = match shell {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
            Shell::Powershell | Shell::Elvish => panic!("{shell:?} is not among the tested shells"),
        };
        for program in [name, "script"] {
            if !is_installed(program) {
                eprintln!("SKIPPED: completion in {name} ({program} is not installed)");
                return None;
            }
        }
        let home = tempfile::tempdir().expect("a new directory");
        let write = |path: &str, text: &str| {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a new directory");
            std::fs::write(path, text).expect("a new file");
        };
        let script = registration(shell).expect("a supported shell");
        write("completions", &script);
        // What `v*` matches if a shell expands it.
        write("work/vfile", "");
        let stub = format!(
            "#!/bin/sh\nif [ -n \"$COMPLETE\" ]; then exec {} \"$@\"; fi\n\
             printf '%s\\0' \"$@\" > \"$HOME/args.new\" && mv \"$HOME/args.new\" \"$HOME/args\"\n",
            env!("CARGO_BIN_EXE_nomad-csi")
        );
        write("bin/nomad-csi", &stub);
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(home.path().join("bin/nomad-csi"), executable).expect("its owner");
        write("rc.bash", "source ~/completions\n");
        write(".zshrc", "autoload -Uz compinit && compinit -u -D\nsource ~/completions\n");
        let command = match shell {
            Shell::Zsh => "zsh -i",
            Shell::Fish => "fish --no-config --interactive --init-command 'source ~/completions'",
            _ => "bash --noprofile --rcfile ~/rc.bash -i",
        };
        let mut process = Command::new("script")
            .args(["--quiet", "--flush", "--command", command, "/dev/null"])
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", home.path().join("bin").display()))
            .env("HOME", home.path())
            .env("TERM", "xterm")
            .env("LANG", "C.UTF-8")
            .env("SHELL", "/bin/sh")
            .env("NOMAD_ADDR", server)
            .current_dir(home.path().join("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script starts");
        let keys = process.stdin.take().expect("a pipe");
        let mut output = process.stdout.take().expect("a pipe");
        let screen = Arc::new(Mutex::new(vec![]));
        let sink = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                sink.lock().expect("unpoisoned").extend_from_slice(&bytes[..length]);
            }
        });
        let mut session = Self { home, keys, process, screen };
        // A shell that is not ready yet reads the line later.
        session.expect_arguments("nomad-csi ready\r", &["ready"]);
        Some(session)
    }

    fn arguments_file(&self) -> PathBuf {
        self.home.path().join("args")
    }

    /// Presses keys until the program is called with these arguments. The answer of the server may be too late for a
    /// completion on a busy machine.
    fn expect_arguments(&mut self, keys: &str, expected: &[&str]) {
        until(&format!("{keys:?} to call the program with {expected:?}"), || {
            let called = self.arguments_after(keys);
            match called == expected {
                true => Ok(()),
                false => Err(format!("{called:?}\n{}", self.screen())),
            }
        });
        let left: Vec<_> = std::fs::read_dir(self.home.path().join("work"))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(left, ["vfile"], "{keys:?} ran something: {}", self.screen());
    }

    /// Presses keys that end with Enter, and returns the arguments that the program is called with. A shell that was not
    /// offered the name in time may wait for the end of a quote: it gives up the line and gets it again.
    fn arguments_after(&mut self, keys: &str) -> Vec<String> {
        let file = self.arguments_file();
        std::fs::remove_file(&file).ok();
        self.keys.write_all(keys.as_bytes()).expect("the shell reads");
        let again = format!("{INTERRUPT}{keys}");
        let mut looks = 0;
        let text = until(&format!("{keys:?} to call the program"), || {
            looks += 1;
            if looks % LOOKS_BEFORE_AGAIN == 0 {
                let keys = &mut self.keys;
                keys.write_all(again.as_bytes()).expect("the shell reads");
            }
            read(&file).ok_or_else(|| self.screen())
        });
        let arguments = text.split_terminator('\0');
        arguments.map(ToOwned::to_owned).collect()
    }

    fn screen(&self) -> String {
        let bytes = self.screen.lock().expect("unpoisoned");
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(2000)..]).into_owned()
    }
}

fn read(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

/// Returns whether bash can be given the name after this quote.
fn fits_in_quotes(quote: &str, name: &str) -> bool {
    match quote {
        "'" => !name.contains('\''),
        "\"" => !name.contains(['"', '$', '`', '\\', '!']),
        _ => true,
    }
}

fn complete_names(shell: Shell) {
    let runtime = Runtime::new().expect("a runtime");
    let names = Names::default();
    let shown = names.clone();
    let server = runtime.block_on(Server::start(move |seen, _| shown.answer(seen)));
    let Some(mut session) = Session::start(shell, &server.url()) else {
        return;
    };
    let quotes: &[&str] = match shell {
        Shell::Fish => &[""],
        _ => &["", "'", "\""],
    };
    for quote in quotes {
        let line = format!("nomad-csi volume status {quote}v\t\r");
        for name in QUOTABLE {
            let is_offered = shell != Shell::Bash || fits_in_quotes(quote, name);
            // Beside a name that is not offered, the plain one is the only candidate.
            let (listed, expected) = match is_offered {
                true => (vec![name], name),
                false => (vec![name, PLAIN], PLAIN),
            };
            names.set(&listed);
            session.expect_arguments(&line, &["volume", "status", expected]);
        }
        for name in NOT_OFFERED {
            names.set(&[name, PLAIN]);
            session.expect_arguments(&line, &["volume", "status", PLAIN]);
        }
    }
}

#[test]
fn bash_completes_names_as_one_word() {
    complete_names(Shell::Bash);
}

#[test]
fn zsh_completes_names_as_one_word() {
    complete_names(Shell::Zsh);
}

#[test]
fn fish_completes_names_as_one_word() {
    complete_names(Shell::Fish);
}
