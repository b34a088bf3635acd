//! Sessions at the command line, written down as Markdown and held against the program.
//!
//! A transcript is read from top to bottom. Fenced blocks mean something, everything else is prose:
//!
//! * ```` ```hcl volume.hcl ````: a file of that name, below the session's directory.
//! * ```` ```http ````: what the server answers: a line `GET /v1/…`, a status (`close` breaks the
//!   connection, `silence` keeps it and says nothing), header lines, an empty line, the body. Each
//!   `^C` behind a status presses Ctrl-C as the request arrives. Of several blocks in a row for one
//!   request, one after the other is answered, the last for ever.
//! * ```` ```console ````: a command and everything that it printed. `$ ` starts the command, `<< `
//!   is typed on a terminal, `2> ` is standard error, `? 3` the exit code if it is not 0. `< FILE`
//!   behind a command is its standard input, `NAME=value` before it its environment. Besides
//!   `nomad-csi` there are `cat` and `ls`.
//! * ```` ```requests ````: what the server was asked since the last such block, or the start.
//!
//! Each session has a directory, an environment, a clock and a server of its own, so all of them run
//! at once. `NOMAD_CSI_BLESS=1` writes down what the program does now.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Cursor, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nomad_csi::cli::{Environment, Input, Interrupts, World, run};
use nomad_csi::nomad::Settings;

use super::canned::{CannedServer, Told};
use super::hermetic::{Marked, Output, Redirect, world};
use super::http_server::{Answer, answer};

/// Runs a transcript and compares; or rewrites it, if that was asked for.
///
/// # Panics
/// If the program does something else than what is written.
pub(crate) fn check(path: &Path) {
    compare(path, Player::new());
}

/// The same, with a server that is really there in place of one that says what it was told. Its
/// indexes are its own, and not shown.
///
/// # Panics
/// If the program does something else than what is written.
pub(crate) fn check_at(path: &Path, address: &str) {
    let player = Player {
        real: Some(address.to_owned()),
        ..Player::new()
    };
    compare(path, player);
}

fn compare(path: &Path, mut player: Player) {
    let text = std::fs::read_to_string(path).expect("the transcript is readable");
    let actual = player.play(&text);
    if actual == text {
        return;
    }
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        std::fs::write(path, actual).expect("the transcript is writable");
        return;
    }
    let difference = similar::TextDiff::from_lines(text.as_str(), actual.as_str());
    panic!(
        "{} says something else than the program (NOMAD_CSI_BLESS=1 rewrites it):\n{}",
        path.display(),
        difference.unified_diff().header("written", "actual")
    );
}

struct Player {
    directory: tempfile::TempDir,
    server: CannedServer,
    interrupts: Interrupts,
    /// A port at which nothing listens.
    silent: String,
    /// A server that is really there.
    real: Option<String>,
    has_server: bool,
    /// Requests whose answers were told since the last command.
    told: Vec<String>,
    /// What files and answers say, so that a UUID that was made up can be told from one that was not.
    said: String,
    /// UUIDs that were made up, in their order.
    made_up: RefCell<Vec<String>>,
}

impl Player {
    fn new() -> Self {
        let interrupts = Interrupts::default();
        let unused = std::net::TcpListener::bind("127.0.0.1:0").expect("a port can be had");
        let silent = format!("http://{}", unused.local_addr().expect("it is bound"));
        Self {
            directory: tempfile::tempdir().expect("a directory can be made"),
            server: CannedServer::start(&interrupts),
            interrupts,
            silent,
            real: None,
            has_server: false,
            told: vec![],
            said: String::new(),
            made_up: RefCell::default(),
        }
    }

    /// The transcript as the program makes it now.
    fn play(&mut self, text: &str) -> String {
        let mut written = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            written += line;
            written.push('\n');
            let Some(info) = line.strip_prefix("```").filter(|info| !info.is_empty()) else {
                continue;
            };
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            if info != "console" {
                self.said += &block.concat();
            }
            let shown = self.block(info, &block);
            written += &shown;
            written += "```\n";
        }
        let unexpected = self.server.unexpected();
        assert!(
            unexpected.is_empty(),
            "the server was asked what nobody told it: {unexpected:#?}"
        );
        written
    }

    fn block(&mut self, info: &str, lines: &[&str]) -> String {
        let as_it_was = || {
            lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        let words: Vec<&str> = info.split_whitespace().collect();
        match words.as_slice() {
            ["console"] => self.console(lines),
            ["http"] => {
                self.http(lines);
                as_it_was()
            }
            ["requests"] => self.requests(),
            [_syntax, name] => {
                let path = self.directory.path().join(name);
                let folder = path.parent().expect("it lies in the directory");
                std::fs::create_dir_all(folder).expect("the directory is writable");
                std::fs::write(path, as_it_was()).expect("the directory is writable");
                as_it_was()
            }
            _ => as_it_was(),
        }
    }

    fn http(&mut self, lines: &[&str]) {
        self.has_server = true;
        let [request, status, rest @ ..] = lines else {
            panic!("an http block has a request and a status: {lines:?}");
        };
        let (status, pressed) = status.split_once(' ').unwrap_or((status, ""));
        let told = Told {
            answer: http_answer(status, rest),
            interrupts: pressed.matches("^C").count(),
        };
        if self.told.iter().any(|told| told == request) {
            self.server.then_tell(request, told);
        } else {
            self.told.push((*request).to_owned());
            self.server.tell(request, told);
        }
    }

    fn requests(&self) -> String {
        let asked = self.server.take_asked();
        asked
            .iter()
            .map(|request| self.anonymous(request) + "\n")
            .collect()
    }

    fn console(&mut self, lines: &[&str]) -> String {
        self.told.clear();
        let mut shown = String::new();
        for (at, line) in lines.iter().enumerate() {
            let Some(command) = line.strip_prefix("$ ") else {
                continue;
            };
            let typed: Vec<&str> = lines[at + 1..]
                .iter()
                .map_while(|line| line.strip_prefix("<< "))
                .collect();
            shown += line;
            shown.push('\n');
            for answer in &typed {
                shown = shown + "<< " + answer + "\n";
            }
            shown += &self.command(command, &typed);
        }
        shown
    }

    fn command(&self, line: &str, typed: &[&str]) -> String {
        let mut words = split(line);
        let mut environment = vec![("HOME".to_owned(), self.path("home"))];
        while let Some((name, value)) = words.first().and_then(|word| assignment(word)) {
            environment.push((name, value.replace("[DIR]", &self.path(""))));
            words.remove(0);
        }
        let input = match words.iter().position(|word| word == "<") {
            Some(at) => {
                let file = words.remove(at + 1);
                words.remove(at);
                std::fs::read(self.path(&file)).expect("the input is there")
            }
            None => typed
                .iter()
                .flat_map(|line| format!("{line}\n").into_bytes())
                .collect(),
        };
        match words.first().map(String::as_str) {
            Some("nomad-csi") => self.program(&words, environment, input, !typed.is_empty()),
            Some("cat") => std::fs::read_to_string(self.path(&words[1])).expect("it is there"),
            Some("ls") => listing(&PathBuf::from(self.path(words.get(1).map_or("", |w| w)))),
            other => panic!("{other:?} is no command of a transcript"),
        }
    }

    fn program(
        &self,
        words: &[String],
        environment: Vec<(String, String)>,
        input: Vec<u8>,
        is_terminal: bool,
    ) -> String {
        let output = Output::default();
        let reader: Box<dyn Read + Send> = if is_terminal {
            Box::new(Keyboard {
                typed: BufReader::new(Cursor::new(input)),
                echo: output.clone(),
            })
        } else {
            Box::new(Cursor::new(input))
        };
        let arguments = words
            .iter()
            .map(|word| word.replace("[DIR]", &self.path("")));
        let exit = run(World {
            environment: Environment::from_iter(environment),
            stdin: Input {
                reader,
                is_terminal,
            },
            servers: Arc::new(Redirect::to(&self.url())),
            interrupts: self.interrupts.clone(),
            ..world(self.directory.path(), arguments, &output)
        });
        let mut shown = self.anonymous(&output.text());
        if exit.code() != 0 {
            shown = shown + "? " + &exit.code().to_string() + "\n";
        }
        shown
    }

    /// Where the default address leads.
    fn url(&self) -> String {
        match &self.real {
            Some(address) => address.clone(),
            None if self.has_server => self.server.url(),
            None => self.silent.clone(),
        }
    }

    fn path(&self, name: &str) -> String {
        let path = self.directory.path().join(name);
        path.to_string_lossy().trim_end_matches('/').to_owned()
    }

    fn anonymous(&self, text: &str) -> String {
        let text = text
            .replace(&self.path(""), "[DIR]")
            .replace(&self.server.url(), Settings::DEFAULT_ADDRESS)
            .replace(&self.silent, Settings::DEFAULT_ADDRESS);
        let text = match &self.real {
            Some(address) => without_indexes(&text.replace(address, Settings::DEFAULT_ADDRESS)),
            None => text,
        };
        let mut made_up = self.made_up.borrow_mut();
        let mut shown = text.clone();
        for uuid in uuids(&text).filter(|uuid| !self.said.contains(*uuid)) {
            if !made_up.iter().any(|other| other == uuid) {
                made_up.push(uuid.to_owned());
            }
        }
        for (at, uuid) in made_up.iter().enumerate() {
            shown = shown.replace(uuid, &format!("[UUID {}]", at + 1));
        }
        if !self.has_server {
            // The embedded plugin's volumes have a size of their own only where it runs as root.
            shown = shown.replace("= 1.0 GiB\n", "= unknown\n");
            shown = shown.replace(", 1.0 GiB)", ")");
        }
        shown
    }
}

fn without_indexes(text: &str) -> String {
    let mut parts = text.split("at index ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        format!("{shown}at index [N]{rest}")
    })
}

/// Everything that looks like a UUID.
fn uuids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_hexdigit() && c != '-');
    words.filter(|word| {
        let lengths: Vec<usize> = word.split('-').map(str::len).collect();
        lengths == [8, 4, 4, 4, 12]
    })
}

fn listing(folder: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return "2> there is no such directory\n".to_owned();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned() + "\n")
        .collect();
    names.sort();
    names.concat()
}

/// A status, header lines, an empty line and a body.
fn http_answer(status: &str, rest: &[&str]) -> Answer {
    match status {
        "close" => return Answer::Nothing,
        "silence" => return Answer::Silence,
        _ => {}
    }
    let status = status.parse().expect("a status is a number");
    let end = rest.iter().position(|line| line.is_empty());
    let end = end.unwrap_or(rest.len());
    let mut headers: Vec<(&str, &str)> = rest[..end]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .collect();
    let kind = headers.iter().position(|(name, _)| *name == "Content-Type");
    let kind = match kind.map(|at| headers.remove(at)) {
        Some((_, kind)) => kind,
        None if status == 200 => "application/json",
        None => "text/plain; charset=utf-8",
    };
    headers.push(("X-Nomad-Index", "10"));
    let body = rest.get(end + 1..).unwrap_or_default().join("\n");
    answer(status, kind, &headers, body.as_bytes())
}

/// `NAME=value` before a command.
fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    (is_name && !name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

/// Words as a shell splits them, with both kinds of quotes.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What is typed is seen, as on a terminal, a line at a time.
struct Keyboard {
    typed: BufReader<Cursor<Vec<u8>>>,
    echo: Output,
}

impl Read for Keyboard {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut line = vec![];
        self.typed.read_until(b'\n', &mut line)?;
        let echo = Marked {
            mark: "2> ",
            output: self.echo.clone(),
        };
        { echo }.write_all(&line)?;
        buffer[..line.len()].copy_from_slice(&line);
        Ok(line.len())
    }
}
