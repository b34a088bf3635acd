//! Limits with names: one table per group has the name, meaning and range of each, and the command
//! line changes one with `NAME=VALUE`.

use super::bytes::Bytes;
use crate::diagnostic::closest_match;

/// One limit of the group `L`.
#[derive(Debug)]
pub struct LimitField<L> {
    /// The name on the command line.
    pub name: &'static str,
    /// The limited quantity.
    pub what: &'static str,
    /// True if the value is a size in bytes.
    pub is_size: bool,
    /// The least and the greatest value.
    pub range: (usize, usize),
    field: fn(&mut L) -> &mut usize,
}

impl<L> LimitField<L> {
    /// A limit that is a number.
    pub const fn number(
        name: &'static str,
        what: &'static str,
        range: (usize, usize),
        field: fn(&mut L) -> &mut usize,
    ) -> Self {
        Self { name, what, is_size: false, range, field }
    }

    /// A limit that is a size in bytes.
    pub const fn size(
        name: &'static str,
        what: &'static str,
        range: (usize, usize),
        field: fn(&mut L) -> &mut usize,
    ) -> Self {
        Self { is_size: true, ..Self::number(name, what, range, field) }
    }

    /// Returns the value of the limit.
    pub fn get(&self, limits: &L) -> usize
    where
        L: Clone,
    {
        *(self.field)(&mut limits.clone())
    }

    fn parse(&self, value: &str) -> Result<usize, String> {
        let number = if self.is_size {
            let bytes = Bytes::parse(value).map_err(|error| error.to_string())?;
            usize::try_from(bytes.get()).ok()
        } else {
            value.parse().ok()
        };
        let number = number.ok_or_else(|| format!("`{value}` is not a number"))?;
        let (min, max) = self.range;
        if (min..=max).contains(&number) {
            Ok(number)
        } else {
            Err(format!("`{value}` is not between {min} and {max}"))
        }
    }
}

/// Changes a limit, given as `NAME=VALUE`.
///
/// # Errors
/// Returns why the text is not a limit.
pub fn set_limit<L>(limits: &mut L, fields: &[LimitField<L>], text: &str) -> Result<(), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| "it is not of the form NAME=VALUE".to_owned())?;
    let field = fields.iter().find(|field| field.name == name);
    let field = field.ok_or_else(|| unknown(name, fields))?;
    *(field.field)(limits) = field.parse(value)?;
    Ok(())
}

fn unknown<L>(name: &str, fields: &[LimitField<L>]) -> String {
    let names = || fields.iter().map(|field| field.name);
    match closest_match(name, names()) {
        Some(near) => format!("`{name}` is not a limit; did you mean `{near}`?"),
        None => {
            let names: Vec<_> = names().collect();
            format!("`{name}` is not a limit; the limits are {}", names.join(", "))
        }
    }
}
