//! The loop of the server: one message after the other, in their order.
//!
//! Problems are published when the editor is quiet for a moment, or after a number of changes. A message that cannot be
//! understood is answered, and so is one whose answer fails: only `exit`, or the end of the input, ends the server.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::actions::quick_fixes;
use super::analysis::{Analysis, analyse};
use super::completion::completions;
use super::definition::{definitions, uses};
use super::disk::read_disk;
use super::formatting::formatting;
use super::frames::{Frame, read_frame};
use super::hover::hover;
use super::protocol::{
    DidChange, DidOpen, InitializeParams, OfDocument, OfPosition, OfRange, capabilities,
    watch_registration,
};
use super::published::{PublishedDiagnostic, published};
use super::uri::{path_of, uri_of};
use super::workspace::Workspace;
use nomad_csi_model::Secret;

/// What the server gets from its command.
pub struct ServerOptions {
    /// The version of the program.
    pub version: String,
    /// The directory that relative paths start from if the editor has no folder open.
    pub directory: PathBuf,
    /// Values of variables from the environment.
    pub environment: BTreeMap<String, Secret>,
}

/// How the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LspExit {
    /// The editor asked for the end, and then for the exit.
    Orderly,
    /// It did not ask for the end before.
    Abrupt,
}

/// How long the editor must be quiet before problems are published.
const QUIET: Duration = Duration::from_millis(50);

/// The changes after which problems are published also if the editor is never quiet.
const MAX_UNPUBLISHED: u32 = 20;

/// The messages that may wait.
const MAX_WAITING: usize = 64;

/// Serves an editor until it ends.
///
/// # Errors
/// If the output cannot be written.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write,
    options: ServerOptions,
) -> io::Result<LspExit> {
    let (sender, frames) = sync_channel(MAX_WAITING);
    std::thread::Builder::new()
        .name("lsp-input".to_owned())
        .spawn(move || forward_frames(BufReader::new(input), &sender))?;
    Server::new(output, options).run(&frames)
}

/// Sends what a stream has to the loop, until one of the two ends.
fn forward_frames(mut stream: BufReader<impl Read>, sender: &SyncSender<Frame>) {
    while let Ok(Some(frame)) = read_frame(&mut stream) {
        if sender.send(frame).is_err() {
            return;
        }
    }
}

/// The phases of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// `initialize` is missing.
    Starting,
    Serving,
    /// `shutdown` was answered.
    Ending,
}

struct Server<W> {
    output: W,
    options: ServerOptions,
    phase: Phase,
    workspace: Workspace,
    base: PathBuf,
    paths: Vec<String>,
    variable_files: Vec<String>,
    watches_files: bool,
    analysis: Option<Rc<Analysis>>,
    unpublished: u32,
    published: BTreeMap<PathBuf, Vec<PublishedDiagnostic>>,
    logged: Vec<String>,
}

/// The error of an answer.
struct Refusal {
    code: ErrorCode,
    message: String,
}

impl Refusal {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl<W: Write> Server<W> {
    fn new(output: W, options: ServerOptions) -> Self {
        Self {
            output,
            base: options.directory.clone(),
            options,
            phase: Phase::Starting,
            workspace: Workspace::default(),
            paths: vec![],
            variable_files: vec![],
            watches_files: false,
            analysis: None,
            unpublished: 0,
            published: BTreeMap::new(),
            logged: vec![],
        }
    }

    fn run(mut self, frames: &Receiver<Frame>) -> io::Result<LspExit> {
        loop {
            let next = match self.unpublished {
                0 => frames.recv().map_err(|_| RecvTimeoutError::Disconnected),
                MAX_UNPUBLISHED.. => Err(RecvTimeoutError::Timeout),
                _ => frames.recv_timeout(QUIET),
            };
            match next {
                Ok(Frame::Message(message)) => {
                    if let Some(exit) = self.message(message)? {
                        return Ok(exit);
                    }
                }
                Ok(Frame::Broken(why)) => self.refuse_broken(why)?,
                Err(RecvTimeoutError::Timeout) => self.publish()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(LspExit::Abrupt);
                }
            }
        }
    }

    fn message(&mut self, message: Message) -> io::Result<Option<LspExit>> {
        match message {
            Message::Request(request) => self.request(request)?,
            Message::Notification(notification) if notification.method == "exit" => {
                return Ok(Some(match self.phase {
                    Phase::Ending => LspExit::Orderly,
                    Phase::Starting | Phase::Serving => LspExit::Abrupt,
                }));
            }
            Message::Notification(notification) if self.phase == Phase::Serving => {
                let method = notification.method.clone();
                match guarded(|| self.notification(notification)) {
                    Ok(result) => result?,
                    Err(message) => {
                        self.analysis = None;
                        self.log(&format!("`{method}` failed: {message}"))?;
                    }
                }
            }
            Message::Notification(_) | Message::Response(_) => {}
        }
        Ok(None)
    }

    fn request(&mut self, request: Request) -> io::Result<()> {
        let Request { id, method, params } = request;
        let answer = match guarded(|| self.answer(&method, params)) {
            Ok(answer) => answer,
            Err(message) => {
                self.analysis = None;
                Err(Refusal::new(ErrorCode::InternalError, message))
            }
        };
        self.respond(id, answer)?;
        for problem in std::mem::take(&mut self.logged) {
            self.log(&problem)?;
        }
        if method == "initialize" && self.watches_files {
            let register = Request {
                id: RequestId::from("watch".to_owned()),
                method: "client/registerCapability".to_owned(),
                params: watch_registration(),
            };
            Message::Request(register).write(&mut self.output)?;
        }
        Ok(())
    }

    fn respond(&mut self, id: RequestId, answer: Result<Value, Refusal>) -> io::Result<()> {
        let response = match answer {
            Ok(value) => Response { id, response_result: Ok(value) },
            Err(refusal) => Response::new_err(id, refusal.code as i32, refusal.message),
        };
        Message::Response(response).write(&mut self.output)
    }

    /// Answers what is no message, and so has no number.
    fn refuse_broken(&mut self, why: &str) -> io::Result<()> {
        let code = ErrorCode::ParseError as i32;
        let answer = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": why}});
        let text = answer.to_string();
        write!(self.output, "Content-Length: {}\r\n\r\n{text}", text.len())?;
        self.output.flush()
    }

    fn notify(&mut self, method: &str, params: Value) -> io::Result<()> {
        let notification = Notification { method: method.to_owned(), params };
        Message::Notification(notification).write(&mut self.output)
    }

    fn log(&mut self, message: &str) -> io::Result<()> {
        self.notify("window/logMessage", json!({"type": 2, "message": message}))
    }

    fn answer(&mut self, method: &str, params: Value) -> Result<Value, Refusal> {
        match (self.phase, method) {
            (Phase::Starting, "initialize") => self.initialize(parsed(params)?),
            (Phase::Starting, _) => {
                Err(Refusal::new(ErrorCode::ServerNotInitialized, "`initialize` is missing"))
            }
            (Phase::Serving | Phase::Ending, "initialize") => {
                Err(Refusal::new(ErrorCode::InvalidRequest, "`initialize` was answered before"))
            }
            (Phase::Ending, _) => {
                Err(Refusal::new(ErrorCode::InvalidRequest, "`shutdown` was answered before"))
            }
            (Phase::Serving, "shutdown") => {
                self.phase = Phase::Ending;
                self.unpublished = 0;
                Ok(Value::Null)
            }
            (Phase::Serving, method) => self.answer_editor(method, params),
        }
    }

    fn initialize(&mut self, params: InitializeParams) -> Result<Value, Refusal> {
        let encoding = params.encoding();
        let root = params.root().and_then(path_of);
        self.watches_files = params.watches_files();
        self.workspace = Workspace::new(root.clone(), encoding);
        self.workspace.has_snippets = params.has_snippets();
        let options = params.initialization_options.unwrap_or_default();
        self.paths = match (options.paths.is_empty(), &root) {
            (true, Some(_)) => vec![".".to_owned()],
            (true, None) | (false, _) => options.paths,
        };
        self.variable_files = options.var_files;
        if let Some(root) = root {
            self.base = root;
        }
        self.phase = Phase::Serving;
        self.read_files();
        Ok(capabilities(encoding, &self.options.version))
    }

    /// Reads the disk again.
    fn read_files(&mut self) {
        let read = read_disk(&self.base, &self.paths, &self.variable_files);
        self.workspace.set_disk(read.texts);
        self.workspace.set_variables(read.variable_files, self.options.environment.clone());
        self.logged = read.problems;
        self.has_changed();
    }

    fn has_changed(&mut self) {
        self.analysis = None;
        self.unpublished += 1;
    }

    fn analysis(&mut self) -> Rc<Analysis> {
        let known = self.analysis.take().unwrap_or_else(|| Rc::new(analyse(&self.workspace)));
        self.analysis = Some(Rc::clone(&known));
        known
    }

    fn answer_editor(&mut self, method: &str, params: Value) -> Result<Value, Refusal> {
        let analysis = self.analysis();
        let workspace = &self.workspace;
        match method {
            "textDocument/hover" => {
                let at: OfPosition = parsed(params)?;
                let path = path(&at.text_document.uri);
                written(hover(workspace, &analysis, &path, at.position))
            }
            "textDocument/completion" => {
                let at: OfPosition = parsed(params)?;
                let path = path(&at.text_document.uri);
                written(completions(workspace, &analysis, &path, at.position))
            }
            "textDocument/definition" => {
                let at: OfPosition = parsed(params)?;
                let path = path(&at.text_document.uri);
                written(definitions(workspace, &analysis, &path, at.position))
            }
            "textDocument/references" => {
                let at: OfPosition = parsed(params)?;
                let path = path(&at.text_document.uri);
                let declared = at.context.include_declaration;
                written(uses(workspace, &analysis, &path, at.position, declared))
            }
            "textDocument/formatting" => {
                let of: OfDocument = parsed(params)?;
                written(formatting(workspace, &path(&of.text_document.uri)))
            }
            "textDocument/codeAction" => {
                let of: OfRange = parsed(params)?;
                let path = path(&of.text_document.uri);
                written(quick_fixes(workspace, &analysis, &path, &of.range))
            }
            other => {
                let message = format!("`{other}` is not a request of this server");
                Err(Refusal::new(ErrorCode::MethodNotFound, message))
            }
        }
    }

    fn notification(&mut self, notification: Notification) -> io::Result<()> {
        let Notification { method, params } = notification;
        let understood = match method.as_str() {
            "textDocument/didOpen" => self.did_open(params),
            "textDocument/didChange" => self.did_change(params),
            "textDocument/didClose" => parsed(params).map(|of: OfDocument| {
                self.workspace.close(&path(&of.text_document.uri));
                self.has_changed();
            }),
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => {
                self.read_files();
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(refusal) = understood {
            self.log(&format!("`{method}` is ignored: {}", refusal.message))?;
        }
        for problem in std::mem::take(&mut self.logged) {
            self.log(&problem)?;
        }
        Ok(())
    }

    fn did_open(&mut self, params: Value) -> Result<(), Refusal> {
        let DidOpen { text_document: opened } = parsed(params)?;
        if let Some(path) = path_of(&opened.uri) {
            self.workspace.open(path, &opened.text, &opened.language_id, opened.version);
            self.has_changed();
        }
        Ok(())
    }

    fn did_change(&mut self, params: Value) -> Result<(), Refusal> {
        let DidChange { text_document: document, content_changes } = parsed(params)?;
        if let Some(path) = path_of(&document.uri) {
            self.workspace.change(&path, &content_changes, document.version);
            self.has_changed();
        }
        Ok(())
    }

    /// Publishes the problems of the files whose problems are others than before.
    fn publish(&mut self) -> io::Result<()> {
        self.unpublished = 0;
        let found = guarded(|| {
            let analysis = self.analysis();
            published(&self.workspace, &analysis)
        });
        let found = match found {
            Ok(found) => found,
            Err(message) => {
                self.analysis = None;
                return self.log(&format!("the files could not be checked: {message}"));
            }
        };
        let before = std::mem::take(&mut self.published);
        let gone = before.keys().filter(|path| !found.contains_key(*path));
        let gone: Vec<PathBuf> = gone.cloned().collect();
        for path in gone {
            self.publish_file(&path, &[])?;
        }
        for (path, problems) in &found {
            if before.get(path) != Some(problems) || self.workspace.is_open(path) {
                self.publish_file(path, problems)?;
            }
        }
        self.published = found;
        Ok(())
    }

    fn publish_file(&mut self, path: &Path, problems: &[PublishedDiagnostic]) -> io::Result<()> {
        let mut params = json!({"uri": uri_of(path), "diagnostics": problems});
        if let Some(version) = self.workspace.version(path) {
            params["version"] = version.into();
        }
        self.notify("textDocument/publishDiagnostics", params)
    }
}

/// Returns the path of a document; that of none if it is no file.
fn path(uri: &str) -> PathBuf {
    path_of(uri).unwrap_or_default()
}

fn parsed<T: DeserializeOwned>(params: Value) -> Result<T, Refusal> {
    serde_json::from_value(params)
        .map_err(|error| Refusal::new(ErrorCode::InvalidParams, error.to_string()))
}

fn written(value: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value)
        .map_err(|error| Refusal::new(ErrorCode::InternalError, error.to_string()))
}

/// Does something, and returns in words that it panicked.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // What a panic leaves half done is the cached analysis, which is dropped.
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| "this is a defect of the program; please report it".to_owned())
}
