//! What `volume init` writes: a commented specification per syntax, which works with the embedded
//! plugin as it stands. The texts are the examples in `specs/`.

use super::syntax::Syntax;

/// The example in that syntax.
pub const fn template(syntax: Syntax) -> &'static str {
    match syntax {
        Syntax::Hcl => include_str!("../../specs/hostpath.hcl"),
        Syntax::Yaml => include_str!("../../specs/hostpath.yaml"),
        Syntax::Json => include_str!("../../specs/hostpath.json"),
    }
}
