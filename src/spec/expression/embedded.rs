//! Texts of YAML and JSON: `${…}` in them is evaluated.
//!
//! A text that is one `${…}` keeps the type of its value. `$${` and `%%{` are literal. A backslash
//! is a character of the text, because YAML and JSON have read their escapes before.

use std::rc::Rc;

use super::convert::{
    Converter, MAX_BYTES, Strip, is_repeated_key, repeated_key, short, syntax, too_long,
};
use super::equal_keys;
use super::names::Names;
use super::problem::Problem;
use super::tree::Expr;
use crate::interpolation::malformed_part;
use nomad_csi_model::diagnostic::Code;

/// Reads a text of YAML or JSON; `None` if it has nothing that is evaluated or escaped.
///
/// # Errors
/// Returns everything that is wrong with it.
pub(crate) fn parse_template(
    text: &str,
    names: &mut Names,
) -> Result<Option<Rc<Expr>>, Vec<Problem>> {
    if !text.contains("${") && !text.contains("%{") {
        return Ok(None);
    }
    if text.len() > MAX_BYTES {
        return Err(vec![too_long()]);
    }
    let template = hcl_edit::parser::parse_template(text).map_err(|error| {
        let offset = error.location().offset();
        if is_repeated_key(error.message()) {
            return vec![repeated_key(equal_keys::places_in_template(text, offset))];
        }
        let problem = syntax(text, offset, error.message());
        if problem.code == Code::SpecTooDeep {
            return vec![problem];
        }
        vec![malformed(text).unwrap_or(problem)]
    })?;
    let at = short(&(0..text.len()));
    Converter::new(text, names)
        .finish(|converter| converter.template(&template, at, Strip::Line))
        .map(Some)
}

/// Returns the problem of `${` or `%{` that starts no expression.
fn malformed(text: &str) -> Option<Problem> {
    let part = malformed_part(text)?;
    let is_directive = text[part.clone()].starts_with('%');
    let (message, help) = match is_directive {
        true => ("`%{` starts no valid directive", "write `%%{` for a literal `%{`"),
        false => ("`${` starts no valid expression", "write `$${` for a literal `${`"),
    };
    let problem = Problem::new(Code::SpecSyntax, short(&part), message);
    Some(problem.label("not an expression").help(help))
}
