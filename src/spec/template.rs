//! The commented example that `volume init` writes, one per syntax.
//!
//! The texts are the files in `specs/`. They work with the embedded plugin as they are.

use super::syntax::Syntax;

/// Returns the example in a syntax. Its usage comment contains the name of the file.
pub fn template(syntax: Syntax, file: &str) -> String {
    let (text, own_name) = match syntax {
        Syntax::Hcl => (include_str!("../../specs/hostpath.hcl"), "specs/hostpath.hcl"),
        Syntax::Yaml => (include_str!("../../specs/hostpath.yaml"), "specs/hostpath.yaml"),
        Syntax::Json => (include_str!("../../specs/hostpath.json"), "specs/hostpath.json"),
    };
    // In JSON the name is within a text, elsewhere within a comment.
    let file = match syntax {
        Syntax::Json => serde_json::Value::from(file).to_string(),
        Syntax::Hcl | Syntax::Yaml => file.replace(char::is_control, "?"),
    };
    text.replace(own_name, file.trim_matches('"')).replace(" (docs/plugin.md)", "")
}
