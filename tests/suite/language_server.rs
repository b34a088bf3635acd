//! `nomad-csi lsp` as an editor sees it: the real program, over pipes.

use std::io::{BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Editor {
    process: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    seen: Vec<Value>,
    last_id: i32,
    folder: TempDir,
}

impl Editor {
    /// Starts the program in a folder with these files, and initializes it.
    fn start(files: &[(&str, &str)], options: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut process = Command::new(env!("CARGO_BIN_EXE_nomad-csi"))
            .args(["lsp", "--stdio"])
            .env_clear()
            .env("NOMAD_CSI_VAR_zone", "eu-1")
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            while let Some(message) = read_message(&mut output) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let input = process.stdin.take();
        let mut editor = Self { process, input, messages, seen: vec![], last_id: 0, folder };
        let params = json!({
            "processId": null,
            "rootUri": editor.uri(""),
            "capabilities": {"general": {"positionEncodings": ["utf-8"]}},
            "initializationOptions": options,
        });
        let answer = editor.request("initialize", &params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "nomad-csi", "{answer}");
        editor.notify("initialized", &json!({}));
        editor
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}", self.folder.path().join(name).display())
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        self.send_bytes(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its answer.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.wait_for(|message| message["id"] == id)
    }

    /// Asks for something at a position of a file, which is open.
    fn ask(&mut self, method: &str, name: &str, (line, character): (u32, u32)) -> Value {
        let params = json!({
            "textDocument": {"uri": self.uri(name)},
            "position": {"line": line, "character": character},
        });
        let answer = self.request(&format!("textDocument/{method}"), &params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    fn open(&mut self, name: &str, text: &str) {
        let document =
            json!({"uri": self.uri(name), "languageId": "hcl", "version": 1, "text": text});
        self.notify("textDocument/didOpen", &json!({"textDocument": document}));
    }

    /// Replaces the text of an open file.
    fn write(&mut self, name: &str, version: i32, text: &str) {
        let document = json!({"uri": self.uri(name), "version": version});
        let params = json!({"textDocument": document, "contentChanges": [{"text": text}]});
        self.notify("textDocument/didChange", &params);
    }

    /// Waits until the problems of a version of a file are published.
    fn problems(&mut self, name: &str, version: Option<i32>) -> Vec<Value> {
        let uri = self.uri(name);
        let published = self.wait_for(|message| {
            let params = &message["params"];
            message["method"] == "textDocument/publishDiagnostics"
                && params["uri"] == uri.as_str()
                && version.is_none_or(|version| params["version"] == version)
        });
        published["params"]["diagnostics"].as_array().unwrap().clone()
    }

    /// Returns the next message that is wanted. Others are kept.
    fn wait_for(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&is_wanted) {
            return self.seen.remove(at);
        }
        loop {
            let Ok(message) = self.messages.recv_timeout(PATIENCE) else {
                panic!("no such message; others: {:#?}", self.seen);
            };
            if is_wanted(&message) {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// Returns the exit code after the end of the input, and everything on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let mut errors = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.process.wait().unwrap().code(), errors)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // After a failure, the program is still there.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn read_message(output: &mut impl std::io::BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().strip_prefix("Content-Length: ") {
            Some(value) => length = value.parse().ok()?,
            None if line == "\r\n" => break,
            None => {}
        }
    }
    let mut content = vec![0; length];
    output.read_exact(&mut content).ok()?;
    serde_json::from_slice(&content).ok()
}

const CLASSES: &str = r#"variable "env" {
  type    = string
  default = "dev"
}
variable "zone" {
  type = string
}
variable "key" {
  type      = string
  sensitive = true
}
class "fast" {
  plugin_id = "ceph-${var.env}"
  secrets {
    key = var.key
  }
}
"#;

const VOLUMES: &str = r#"volume "pg" {
  name         = "ä-${var.zone}"
  class        = "fast"
  type         = "csi"
  capacity_min = "10GiB"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
"#;

fn codes(problems: &[Value]) -> Vec<&str> {
    problems.iter().filter_map(|problem| problem["code"].as_str()).collect()
}

#[test]
fn an_editor_is_served_from_the_first_keystroke_to_the_exit() {
    let mut editor = Editor::start(&[("shared/classes.hcl", CLASSES)], &Value::Null);
    editor.open("v.hcl", VOLUMES);
    assert_eq!(editor.ask("hover", "v.hcl", (4, 4))["contents"]["kind"], "markdown");
    let zone = editor.ask("hover", "v.hcl", (1, 26));
    assert!(zone["contents"]["value"].as_str().unwrap().contains("`\"eu-1\"`"), "{zone}");
    let class = editor.ask("definition", "v.hcl", (2, 20));
    assert_eq!(class[0]["uri"], editor.uri("shared/classes.hcl"));
    assert_eq!(class[0]["range"]["start"], json!({"line": 11, "character": 6}));
    let keys = editor.ask("completion", "v.hcl", (5, 0));
    let labels: Vec<&str> =
        keys.as_array().unwrap().iter().filter_map(|item| item["label"].as_str()).collect();
    assert!(labels.contains(&"capacity_max") && labels.contains(&"for_each"), "{labels:?}");

    let misspelt = VOLUMES.replace("single-node-writer", "single-node-writter");
    editor.write("v.hcl", 2, &misspelt);
    let problems = editor.problems("v.hcl", Some(2));
    assert_eq!(codes(&problems), ["spec/unknown-access-mode"]);
    let range = problems[0]["range"].clone();
    assert_eq!(range["start"], json!({"line": 6, "character": 22}));
    let params = json!({
        "textDocument": {"uri": editor.uri("v.hcl")},
        "range": range,
        "context": {"diagnostics": problems},
    });
    let fixes = editor.request("textDocument/codeAction", &params);
    let edit = &fixes["result"][0]["edit"]["changes"][editor.uri("v.hcl")][0];
    assert!(edit["newText"].as_str().unwrap().contains("single-node-writer"), "{fixes}");

    editor.write("v.hcl", 3, &VOLUMES.replace("  type ", "type "));
    assert_eq!(codes(&editor.problems("v.hcl", Some(3))), Vec::<&str>::new());
    let params = json!({"textDocument": {"uri": editor.uri("v.hcl")}, "options": {}});
    let edits = editor.request("textDocument/formatting", &params);
    assert_eq!(edits["result"].as_array().unwrap().len(), 1, "{edits}");
    assert_eq!(edits["result"][0]["range"]["start"]["line"], 3);

    assert_eq!(editor.request("shutdown", &Value::Null)["result"], Value::Null);
    editor.notify("exit", &Value::Null);
    assert_eq!(editor.end(), (Some(0), String::new()));
}

#[test]
fn broken_texts_and_broken_messages_do_not_end_the_server() {
    let mut editor = Editor::start(&[("classes.hcl", CLASSES)], &Value::Null);
    editor.open("v.hcl", "volume \"pg\" {\n  class = \n");
    assert_eq!(codes(&editor.problems("v.hcl", Some(1))), ["spec/syntax"]);
    editor.send_bytes(b"Content-Length: 5\r\n\r\n{\"a\":nonsense\r\n\r\n");
    editor.wait_for(|message| message["error"]["code"] == -32700);
    let unknown = editor.request("workspace/executeCommand", &json!({"command": "rm"}));
    assert_eq!(unknown["error"]["code"], -32601);
    editor.write("v.hcl", 2, VOLUMES);
    assert_eq!(codes(&editor.problems("v.hcl", Some(2))), Vec::<&str>::new());
    // The end of the input without a request for it.
    assert_eq!(editor.end(), (Some(1), String::new()));
}

/// What the disk has counts again when a file is closed, and files of variables give values.
#[test]
fn the_texts_of_the_editor_are_over_those_of_the_disk() {
    let broken = VOLUMES.replace("10GiB", "10XiB");
    let files =
        [("classes.hcl", CLASSES), ("v.hcl", &broken), ("prod.vars.hcl", "env = \"prod\"\n")];
    let mut editor = Editor::start(&files, &json!({"varFiles": ["prod.vars.hcl"]}));
    assert_eq!(codes(&editor.problems("v.hcl", None)), ["spec/invalid-size"]);
    editor.open("v.hcl", VOLUMES);
    assert_eq!(codes(&editor.problems("v.hcl", Some(1))), Vec::<&str>::new());
    let value = editor.ask("hover", "classes.hcl", (12, 24));
    assert!(value["contents"]["value"].as_str().unwrap().contains("`\"prod\"`"), "{value}");
    editor.notify("textDocument/didClose", &json!({"textDocument": {"uri": editor.uri("v.hcl")}}));
    assert_eq!(codes(&editor.problems("v.hcl", None)), ["spec/invalid-size"]);
    // A change on the disk by another program.
    std::fs::write(Path::new(editor.folder.path()).join("v.hcl"), VOLUMES).unwrap();
    editor.notify("workspace/didChangeWatchedFiles", &json!({"changes": []}));
    assert_eq!(codes(&editor.problems("v.hcl", None)), Vec::<&str>::new());
    editor.notify("exit", &Value::Null);
    assert_eq!(editor.end().0, Some(1));
}
