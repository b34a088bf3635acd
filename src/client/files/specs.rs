//! Finds and reads the specifications of `-f`.
//!
//! A path is a file, a directory or a pattern; `-` is standard input. A directory means every
//! specification below it: `*.hcl *.yaml *.yml *.json`, except `*.nomad.hcl` (jobs),
//! `*.plugin.json`, `*.vars.*` (values of variables) and hidden files. A pattern means the matching files. Files come in the order of
//! the arguments, then by name, and each only once. The size is checked before a file is read,
//! cyclic links are followed once, and every unreadable file is reported with its own code. Nothing of
//! a file is shown that a link outside its tree leads to. A pipe has a time limit.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use globset::GlobBuilder;

use super::given::{GivenFile, StreamTexts};
use super::output_place::lexically;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap};
use nomad_csi_spec::Syntax;

/// The largest file that is read.
pub const MAX_BYTES: u64 = 16 << 20;

/// The largest job file that is read. Reading one takes some seventy times its size.
const MAX_JOB_BYTES: u64 = 4 << 20;

/// The largest size of all specifications of one command.
pub const MAX_TOTAL_BYTES: u64 = 128 << 20;

/// The files to read.
pub struct SpecFilesRequest<'r> {
    /// The arguments of `-f`.
    pub arguments: &'r [String],
    /// The directory that relative paths start from.
    pub base_directory: &'r Path,
    /// The source of `-`.
    pub stdin: &'r mut dyn Read,
    /// The syntax of texts without a known file extension. The default is JSON if the text starts with
    /// `{`, otherwise HCL.
    pub syntax: Option<Syntax>,
    /// How long a pipe or a device may take to deliver its content.
    pub pipe_limit: Duration,
    /// The content of streams that have been read already.
    pub read_before: &'r StreamTexts,
    /// True if someone else chose the arguments, so that nothing is shown of a file outside the base directory,
    /// even if an argument names it.
    pub shows_only_tree: bool,
}

/// Reads the files into `sources`, and returns the syntax of each text.
///
/// Unreadable files are reported in `diagnostics`, and the rest is read. Blocks while reading.
pub fn read_spec_files(
    request: &mut SpecFilesRequest<'_>,
    sources: &mut SourceMap,
    diagnostics: &mut Diagnostics,
) -> Vec<(SourceId, Syntax)> {
    read_files(request, FileKind::Specification, sources, diagnostics)
}

/// Reads job files into `sources`, and returns the syntax of each text. A directory is an error.
///
/// Unreadable files are reported in `diagnostics`, and the rest is read. Blocks while reading.
pub fn read_job_files(
    request: &mut SpecFilesRequest<'_>,
    sources: &mut SourceMap,
    diagnostics: &mut Diagnostics,
) -> Vec<(SourceId, Syntax)> {
    read_files(request, FileKind::Job, sources, diagnostics)
}

/// The content of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    /// Volumes. Of a directory, every specification below it is read.
    Specification,
    /// A job. A directory is an error.
    Job,
}

impl FileKind {
    fn max_bytes(self) -> u64 {
        match self {
            Self::Specification => MAX_BYTES,
            Self::Job => MAX_JOB_BYTES,
        }
    }
}

fn read_files(
    request: &mut SpecFilesRequest<'_>,
    kind: FileKind,
    sources: &mut SourceMap,
    diagnostics: &mut Diagnostics,
) -> Vec<(SourceId, Syntax)> {
    let mut reader = SpecFilesReader {
        base_directory: request.base_directory,
        kind,
        syntax: request.syntax,
        pipe_limit: request.pipe_limit,
        read_before: request.read_before,
        shows_only_tree: request.shows_only_tree,
        seen: BTreeSet::new(),
        stdin_was_read: false,
        bytes_left: MAX_TOTAL_BYTES,
        is_done: false,
        sources,
        diagnostics,
        texts: vec![],
    };
    for argument in request.arguments {
        if argument == "-" {
            reader.stdin(&mut *request.stdin);
        } else {
            reader.argument(argument);
        }
    }
    reader.texts
}

struct SpecFilesReader<'r> {
    base_directory: &'r Path,
    kind: FileKind,
    syntax: Option<Syntax>,
    pipe_limit: Duration,
    read_before: &'r StreamTexts,
    shows_only_tree: bool,
    /// Files that have been read, by their real paths.
    seen: BTreeSet<PathBuf>,
    stdin_was_read: bool,
    bytes_left: u64,
    /// True if the rest is not read, because it is too much.
    is_done: bool,
    sources: &'r mut SourceMap,
    diagnostics: &'r mut Diagnostics,
    texts: Vec<(SourceId, Syntax)>,
}

impl SpecFilesReader<'_> {
    fn stdin(&mut self, stdin: &mut dyn Read) {
        if !std::mem::replace(&mut self.stdin_was_read, true) {
            match self.read_before.bytes("-") {
                Some(mut bytes) => self.text("<stdin>", None, bytes.len() as u64, &mut bytes),
                None => self.text("<stdin>", None, 0, stdin),
            };
        }
    }

    fn argument(&mut self, argument: &str) {
        if let Some(mut bytes) = self.read_before.bytes(argument) {
            if self.seen.insert(PathBuf::from(argument)) {
                let syntax = Syntax::from_path(Path::new(argument));
                self.text(argument, syntax, bytes.len() as u64, &mut bytes);
            }
            return;
        }
        let path = self.base_directory.join(argument);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => match self.kind {
                FileKind::Specification => self.directory_argument(argument, &path),
                FileKind::Job => self.refuse_directory(argument),
            },
            Ok(_) => self.file(argument, &path, path.parent().unwrap_or(&path)),
            Err(_) if is_pattern(argument) => self.pattern(argument),
            Err(error) => self.refuse_path(argument, &error),
        }
    }

    fn refuse_path(&mut self, name: &str, error: &io::Error) {
        let code = match error.kind() {
            io::ErrorKind::NotFound => Code::FilesNotFound,
            io::ErrorKind::TimedOut => Code::FilesTimedOut,
            _ => Code::FilesUnreadable,
        };
        let message = match code {
            Code::FilesNotFound => format!("`{name}` does not exist"),
            _ => format!("cannot read `{name}`: {}", reason(error)),
        };
        let problem = Diagnostic::error(code, message);
        self.diagnostics.push(match code {
            Code::FilesTimedOut => problem.help(code.advice()),
            _ => problem,
        });
    }

    fn refuse_directory(&mut self, name: &str) {
        let message = format!("`{name}` is a directory");
        let problem = Diagnostic::error(Code::FilesUnreadable, message);
        let help = format!("name its files: `{}/*.nomad.hcl`", name.trim_end_matches('/'));
        self.diagnostics.push(problem.help(help));
    }

    fn directory_argument(&mut self, name: &str, root: &Path) {
        let path = root;
        let mut found = vec![];
        self.walk(name, path, usize::MAX, &mut found);
        found.retain(|(name, _)| is_specification(Path::new(name)));
        if found.is_empty() {
            let message = format!("directory `{name}` contains no specification");
            self.diagnostics.push(
                Diagnostic::error(Code::FilesNoSpecs, message).help(
                    "add a `*.hcl`, `*.yaml`, `*.yml` or `*.json` file: `*.nomad.hcl`, `*.plugin.json` and hidden files are skipped",
                ),
            );
        }
        for (name, path) in found {
            self.file(&name, &path, root);
        }
    }

    /// Finds all files up to `levels` directories deep, by name. Visits each real directory once.
    fn walk(&mut self, name: &str, path: &Path, levels: usize, found: &mut Vec<(String, PathBuf)>) {
        let mut visited = BTreeSet::new();
        let mut waiting = vec![(name.to_owned(), path.to_owned(), 1)];
        while let Some((name, path, level)) = waiting.pop() {
            let entries = fs::canonicalize(&path).and_then(|real| {
                let entries = if visited.insert(real) { Some(fs::read_dir(&path)?) } else { None };
                entries.into_iter().flatten().collect::<io::Result<Vec<_>>>()
            });
            let entries = match entries {
                Ok(entries) => entries,
                Err(error) => {
                    self.refuse_path(&name, &error);
                    continue;
                }
            };
            for entry in entries {
                let file_name = entry.file_name().to_string_lossy().into_owned();
                if file_name.starts_with('.') {
                    continue;
                }
                let inner = format!("{}/{file_name}", name.trim_end_matches('/'));
                match fs::metadata(entry.path()) {
                    Ok(metadata) if metadata.is_dir() => {
                        if level < levels {
                            waiting.push((inner, entry.path(), level + 1));
                        }
                    }
                    Ok(metadata) if metadata.is_file() => found.push((inner, entry.path())),
                    Ok(_) => {}
                    Err(error) if is_specification(Path::new(&file_name)) => {
                        self.refuse_path(&inner, &error);
                    }
                    Err(_) => {}
                }
            }
        }
        found.sort();
    }

    fn pattern(&mut self, pattern: &str) {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        let matcher = match glob {
            Ok(glob) => glob.compile_matcher(),
            Err(error) => {
                let message = format!("invalid pattern `{pattern}`: {}", error.kind());
                self.diagnostics.push(Diagnostic::error(Code::FilesBadPattern, message));
                return;
            }
        };
        let start = literal_start(pattern);
        let path = self.base_directory.join(&start);
        let mut found = vec![];
        if path.is_dir() {
            let name =
                if start.as_os_str().is_empty() { ".".into() } else { start.to_string_lossy() };
            let below = Path::new(pattern).components().count() - start.components().count();
            let levels = if pattern.contains("**") { usize::MAX } else { below };
            self.walk(&name, &path, levels, &mut found);
        }
        let plain = |name: &str| name.strip_prefix("./").unwrap_or(name).to_owned();
        let matches = |name: &str| matcher.is_match(name) || matcher.is_match(plain(name));
        found.retain(|(name, _)| matches(name));
        if found.is_empty() {
            let message = format!("no file matches `{pattern}`");
            self.diagnostics.push(Diagnostic::error(Code::FilesNotFound, message));
        }
        for (name, path) in found {
            self.file(&plain(&name), &path, path.parent().unwrap_or(&path));
        }
    }

    /// Reads a file of a tree. `root` is the directory of the tree.
    fn file(&mut self, name: &str, path: &Path, root: &Path) {
        if self.is_done {
            return;
        }
        let opened =
            real_path(path).and_then(|real| Ok((real, GivenFile::open(path, self.pipe_limit)?)));
        let (real, mut file) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.refuse_path(name, &error),
        };
        let is_foreign = !self.is_inside(path, &real, root);
        if !self.seen.insert(real) {
            return;
        }
        let metadata = file.metadata();
        let length = metadata.as_ref().map_or(0, fs::Metadata::len);
        if length > self.kind.max_bytes() {
            return self.too_large(name);
        }
        let syntax = Syntax::from_path(Path::new(name));
        let read = self.text(name, syntax, length, &mut file);
        if let Some(source) = read.filter(|_| is_foreign) {
            self.sources.withhold(source);
        }
    }

    /// Returns whether a file is in a tree, or below the directory that relative paths start from. A tree that a link in that
    /// directory leads to was chosen by who made the link. A path whose directory cannot be resolved is outside. Pipes and
    /// devices have no place, and neither has what is only open; but a link in that directory that leads to one was chosen by who
    /// made the link.
    fn is_inside(&self, path: &Path, real: &Path, root: &Path) -> bool {
        let below = |directory: &Path| {
            fs::canonicalize(directory).is_ok_and(|directory| real.starts_with(directory))
        };
        if self.is_link_of_tree(path) && (!real.is_file() || fs::canonicalize(path).is_err()) {
            return false;
        }
        match self.shows_only_tree {
            true => below(self.base_directory),
            false => {
                let is_chosen = !lexically(root).starts_with(lexically(self.base_directory));
                (is_chosen && below(root)) || below(self.base_directory) || !real.is_file()
            }
        }
    }

    /// Returns whether a path is a link, and below the directory that relative paths start from. The names that the system
    /// gives to streams are links too.
    fn is_link_of_tree(&self, path: &Path) -> bool {
        let path = lexically(path);
        let is_of_system = ["/dev", "/proc"].iter().any(|directory| path.starts_with(directory));
        !is_of_system && path.starts_with(lexically(self.base_directory)) && path.is_symlink()
    }

    fn too_large(&mut self, name: &str) {
        let (limit, help) = match self.kind {
            FileKind::Specification => {
                ("16 MiB", "split the file: `-f` accepts several files and directories")
            }
            FileKind::Job => ("4 MiB", "a job file contains one job: check that it is one"),
        };
        let message = format!("`{name}` is larger than {limit}");
        self.diagnostics.push(Diagnostic::error(Code::FilesTooLarge, message).help(help));
    }

    /// Reports once that the files are too large together.
    fn too_much(&mut self) {
        let message = "the specifications are larger than 128 MiB together";
        self.diagnostics.push(
            Diagnostic::error(Code::FilesTooLarge, message)
                .help("run one command per directory or per set"),
        );
        self.is_done = true;
    }

    /// Reads a text of about this length, and returns its source. Reports why it cannot be read.
    fn text(
        &mut self,
        name: &str,
        syntax: Option<Syntax>,
        length: u64,
        from: &mut dyn Read,
    ) -> Option<SourceId> {
        let limit = self.kind.max_bytes();
        // One more shows the end without growing.
        let room = usize::try_from(length.min(limit)).map_or(0, |length| length + 1);
        let mut bytes = Vec::with_capacity(room);
        if let Err(error) = from.take(limit + 1).read_to_end(&mut bytes) {
            self.refuse_path(name, &error);
            return None;
        }
        if bytes.len() as u64 > limit {
            self.too_large(name);
            return None;
        }
        if bytes.len() as u64 > self.bytes_left {
            self.too_much();
            return None;
        }
        self.bytes_left -= bytes.len() as u64;
        match String::from_utf8(bytes) {
            Ok(text) => {
                let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
                let syntax = syntax.or(self.syntax).unwrap_or(if Syntax::looks_like_json(text) {
                    Syntax::Json
                } else {
                    Syntax::Hcl
                });
                let source = self.sources.add(name, text);
                self.texts.push((source, syntax));
                Some(source)
            }
            Err(error) => {
                self.not_utf8(name, error.utf8_error().valid_up_to(), error.as_bytes());
                None
            }
        }
    }

    fn not_utf8(&mut self, name: &str, at: usize, bytes: &[u8]) {
        let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        let line_start = bytes[..at].iter().rposition(|byte| *byte == b'\n');
        let column = 1 + String::from_utf8_lossy(&bytes[line_start.map_or(0, |at| at + 1)..at])
            .chars()
            .count();
        let message =
            format!("`{name}` is not UTF-8: invalid byte at line {line}, column {column}");
        let diagnostic =
            Diagnostic::error(Code::FilesNotUtf8, message).help("save the file as UTF-8");
        self.diagnostics.push(match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => diagnostic.note("the file appears to be UTF-16"),
            _ => diagnostic,
        });
    }
}

/// Returns the path that identifies a file: without links, unless it exists only as an open file, such as the
/// pipe of `<(…)` in a shell, to which the link is all that there is.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(_) if fs::metadata(path).is_ok() => Ok(path.to_owned()),
        real => real,
    }
}

/// Returns the operating system's message without its number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_lowercase(),
        None => text,
    }
}

fn is_pattern(argument: &str) -> bool {
    argument.contains(['*', '?', '[', '{'])
}

/// Returns the leading components of a pattern without wildcards.
fn literal_start(pattern: &str) -> PathBuf {
    let components = Path::new(pattern).components();
    let parent_count = Path::new(pattern).components().count().saturating_sub(1);
    let literal = |component: &Component<'_>| !is_pattern(&component.as_os_str().to_string_lossy());
    components.take(parent_count).take_while(literal).collect()
}

/// Returns whether a file in a directory is a specification, by its name.
pub fn is_specification(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let others =
        [".nomad.hcl", ".plugin.json", ".vars.hcl", ".vars.yaml", ".vars.yml", ".vars.json"];
    let other = others.iter().any(|end| name.ends_with(end));
    !other && Syntax::from_path(path).is_some()
}
