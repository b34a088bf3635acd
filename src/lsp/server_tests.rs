//! The loop with a scripted editor: phases, broken messages, and the way out.

use std::io::{self, Cursor, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::server::{LspExit, ServerOptions, guarded, serve};

/// An output that a test can read.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn frame(message: &Value) -> String {
    let text = message.to_string();
    format!("Content-Length: {}\r\n\r\n{text}", text.len())
}

fn request(id: i32, method: &str, params: &Value) -> String {
    frame(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

fn notification(method: &str, params: &Value) -> String {
    frame(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// Serves what an editor sends, and returns the messages of the server.
fn served(sent: &[String]) -> (LspExit, Vec<Value>) {
    let output = Output::default();
    let options = ServerOptions {
        version: "1.2.3".to_owned(),
        directory: PathBuf::from("/"),
        environment: Default::default(),
    };
    let exit = serve(Cursor::new(sent.concat()), output.clone(), options).unwrap();
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    let messages = text.split("Content-Length: ").skip(1);
    let content = |message: &str| message.split_once("\r\n\r\n").unwrap().1.to_owned();
    (exit, messages.map(|message| serde_json::from_str(&content(message)).unwrap()).collect())
}

fn answer(messages: &[Value], id: i32) -> Value {
    let found = messages.iter().find(|message| message["id"] == id && message["method"].is_null());
    found.unwrap_or_else(|| panic!("no answer to {id}: {messages:#?}")).clone()
}

#[test]
fn an_orderly_end_and_an_abrupt_one_differ() {
    let start = request(1, "initialize", &json!({}));
    let end = request(2, "shutdown", &Value::Null);
    let exit = notification("exit", &Value::Null);
    for (sent, expected) in [
        (vec![start.clone(), end.clone(), exit.clone()], LspExit::Orderly),
        (vec![start.clone(), exit.clone()], LspExit::Abrupt),
        (vec![exit.clone()], LspExit::Abrupt),
        (vec![start.clone(), end.clone()], LspExit::Abrupt),
        (vec![], LspExit::Abrupt),
    ] {
        assert_eq!(served(&sent).0, expected, "{sent:?}");
    }
    let (_, messages) = served(&[start, end, request(3, "textDocument/hover", &json!({})), exit]);
    assert_eq!(answer(&messages, 1)["result"]["serverInfo"]["version"], "1.2.3");
    assert_eq!(answer(&messages, 2)["result"], Value::Null);
    assert_eq!(answer(&messages, 3)["error"]["code"], -32600);
}

#[test]
fn utf_8_is_used_if_the_editor_offers_it() {
    for (offered, expected) in [
        (json!(["utf-16", "utf-8"]), "utf-8"),
        (json!(["utf-16"]), "utf-16"),
        (Value::Null, "utf-16"),
    ] {
        let params = json!({"capabilities": {"general": {"positionEncodings": offered}}});
        let (_, messages) = served(&[request(1, "initialize", &params)]);
        let capabilities = &answer(&messages, 1)["result"]["capabilities"];
        assert_eq!(capabilities["positionEncoding"], expected);
    }
}

/// After all of it, the server still answers.
#[test]
fn nothing_that_an_editor_sends_ends_the_server() {
    let hover = json!({
        "textDocument": {"uri": "file:///x.hcl"},
        "position": {"line": 4_000_000, "character": 9},
    });
    let change = json!({
        "textDocument": {"uri": "file:///x.hcl", "version": 2},
        "contentChanges": [{"range": {"start": {"line": 9, "character": 9}, "end": {"line": 0, "character": 0}}, "text": "}"}],
    });
    let open = json!({"textDocument": {"uri": "file:///x.hcl", "languageId": "hcl", "version": 1, "text": "volume \"a\" {\n\"${"}});
    let sent = [
        request(1, "textDocument/hover", &hover),
        notification("textDocument/didOpen", &open),
        request(2, "initialize", &json!({"capabilities": 3, "initializationOptions": null})),
        request(3, "initialize", &json!({})),
        "nonsense\r\n".to_owned(),
        "Content-Length: 3\r\n\r\n{{{".to_owned(),
        request(4, "unknown/request", &Value::Null),
        notification("unknown/notification", &json!([1])),
        notification("textDocument/didOpen", &json!({"textDocument": 1})),
        notification("textDocument/didOpen", &open),
        notification("textDocument/didChange", &change),
        notification(
            "textDocument/didChange",
            &json!({"textDocument": {"uri": "untitled:1"}, "contentChanges": []}),
        ),
        request(5, "textDocument/hover", &hover),
        request(
            6,
            "textDocument/hover",
            &json!({"textDocument": {"uri": "untitled:1"}, "position": {"line": 0, "character": 0}}),
        ),
        request(7, "textDocument/completion", &json!({"position": "here"})),
        notification(
            "textDocument/didClose",
            &json!({"textDocument": {"uri": "file:///other.hcl"}}),
        ),
        request(8, "shutdown", &Value::Null),
        notification("exit", &Value::Null),
    ];
    let (exit, messages) = served(&sent);
    assert_eq!(exit, LspExit::Orderly);
    for (id, code) in [(1, -32002), (3, -32600), (4, -32601), (7, -32602)] {
        assert_eq!(answer(&messages, id)["error"]["code"], code, "{id}");
    }
    for id in [2, 5, 6, 8] {
        assert!(answer(&messages, id)["error"].is_null(), "{id}");
    }
    let broken = messages.iter().filter(|message| message["error"]["code"] == -32700);
    assert_eq!(broken.count(), 2);
    let logged = |method: &str| {
        messages.iter().any(|message| {
            message["method"] == "window/logMessage"
                && message["params"]["message"].as_str().is_some_and(|text| text.contains(method))
        })
    };
    assert!(logged("textDocument/didOpen"), "{messages:#?}");
}

#[test]
fn a_panic_is_an_answer() {
    assert_eq!(guarded(|| 1), Ok(1));
    let failed = guarded(|| if frame(&Value::Null).is_empty() { 1 } else { panic!("a defect") });
    assert!(failed.is_err_and(|message| message.contains("defect of the program")));
}
