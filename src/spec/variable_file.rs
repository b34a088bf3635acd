//! Recognizes a file of values of variables, by its name: `prod.vars.hcl`.

/// Returns whether a file has values of variables, as its name says.
pub(super) fn is_named_so(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|name| name.to_ascii_lowercase().contains(".vars."))
}
