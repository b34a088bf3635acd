//! The messages of the protocol that this server uses, as it reads and writes them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::edits::{TextChange, TextEdit};
use super::positions::{Encoding, Position, Range};

/// What an editor says at the start.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InitializeParams {
    pub(crate) root_uri: Option<String>,
    pub(crate) workspace_folders: Option<Vec<WorkspaceFolder>>,
    pub(crate) capabilities: Value,
    pub(crate) initialization_options: Option<InitializationOptions>,
}

#[derive(Deserialize)]
pub(crate) struct WorkspaceFolder {
    pub(crate) uri: String,
}

/// What a person sets for this server in the editor.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InitializationOptions {
    /// Files, directories and patterns; the folder of the editor without any.
    pub(crate) paths: Vec<String>,
    /// Files of variables.
    pub(crate) var_files: Vec<String>,
}

impl InitializeParams {
    /// Returns UTF-8 if the editor offers it.
    pub(crate) fn encoding(&self) -> Encoding {
        let offered = self.capabilities.pointer("/general/positionEncodings");
        let offers = offered.and_then(Value::as_array).is_some_and(|offered| {
            offered.iter().any(|one| one.as_str() == Some(Encoding::Utf8.as_str()))
        });
        if offers { Encoding::Utf8 } else { Encoding::Utf16 }
    }

    pub(crate) fn has_snippets(&self) -> bool {
        self.is_true("/textDocument/completion/completionItem/snippetSupport")
    }

    /// Returns whether the editor reports changes of files when asked.
    pub(crate) fn watches_files(&self) -> bool {
        self.is_true("/workspace/didChangeWatchedFiles/dynamicRegistration")
    }

    fn is_true(&self, pointer: &str) -> bool {
        self.capabilities.pointer(pointer).and_then(Value::as_bool) == Some(true)
    }

    /// Returns the URI of the folder that is open.
    pub(crate) fn root(&self) -> Option<&str> {
        let first = self.workspace_folders.iter().flatten().next();
        first.map(|folder| folder.uri.as_str()).or(self.root_uri.as_deref())
    }
}

/// Returns what the server can do.
pub(crate) fn capabilities(encoding: Encoding, version: &str) -> Value {
    json!({
        "capabilities": {
            "positionEncoding": encoding.as_str(),
            "textDocumentSync": {"openClose": true, "change": 2, "save": {}},
            "completionProvider": {"triggerCharacters": [".", "\""]},
            "hoverProvider": true,
            "definitionProvider": true,
            "referencesProvider": true,
            "documentFormattingProvider": true,
            "codeActionProvider": {"codeActionKinds": ["quickfix"]},
        },
        "serverInfo": {"name": "nomad-csi", "version": version},
    })
}

/// Returns the request to report changes of files.
pub(crate) fn watch_registration() -> Value {
    json!({"registrations": [{
        "id": "files",
        "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": "**/*.{hcl,yaml,yml,json}"}]},
    }]})
}

#[derive(Deserialize)]
pub(crate) struct TextDocument {
    pub(crate) uri: String,
    #[serde(default)]
    pub(crate) version: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenedDocument {
    pub(crate) uri: String,
    #[serde(default)]
    pub(crate) language_id: String,
    #[serde(default)]
    pub(crate) version: Option<i64>,
    pub(crate) text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DidOpen {
    pub(crate) text_document: OpenedDocument,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DidChange {
    pub(crate) text_document: TextDocument,
    pub(crate) content_changes: Vec<TextChange>,
}

/// The parameters of everything that is about one document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfDocument {
    pub(crate) text_document: TextDocument,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfPosition {
    pub(crate) text_document: TextDocument,
    pub(crate) position: Position,
    #[serde(default)]
    pub(crate) context: ReferenceContext,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReferenceContext {
    pub(crate) include_declaration: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfRange {
    pub(crate) text_document: TextDocument,
    pub(crate) range: Range,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Location {
    pub(crate) uri: String,
    pub(crate) range: Range,
}

/// A suggestion at the cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompletionItem {
    pub(crate) label: String,
    pub(crate) kind: u8,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) documentation: String,
    pub(crate) text_edit: TextEdit,
    /// 1 for a plain text, 2 for one with places for the cursor.
    pub(crate) insert_text_format: u8,
}

/// What is shown of what is under the cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hover {
    pub(crate) contents: Markup,
    pub(crate) range: Range,
}

/// A text in Markdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Markup {
    pub(crate) kind: &'static str,
    pub(crate) value: String,
}
