//! What `volume init` writes: a commented specification per syntax, which works with the embedded
//! plugin as it stands. The texts are the examples in `specs/`.

use super::syntax::Syntax;

/// The example in that syntax, to be written to a file of that name: it says how it is used.
pub fn template(syntax: Syntax, file: &str) -> String {
    let (text, own) = match syntax {
        Syntax::Hcl => (
            include_str!("../../specs/hostpath.hcl"),
            "specs/hostpath.hcl",
        ),
        Syntax::Yaml => (
            include_str!("../../specs/hostpath.yaml"),
            "specs/hostpath.yaml",
        ),
        Syntax::Json => (
            include_str!("../../specs/hostpath.json"),
            "specs/hostpath.json",
        ),
    };
    // In JSON it stands in a text, else in a comment.
    let file = match syntax {
        Syntax::Json => serde_json::Value::from(file).to_string(),
        Syntax::Hcl | Syntax::Yaml => file.replace(char::is_control, "?"),
    };
    text.replace(own, file.trim_matches('"'))
        .replace(" (docs/plugin.md)", "")
}
