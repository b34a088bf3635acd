//! The approval that cuts off the tasks of an allocation: `cuts-off:ALLOC`.

use crate::model::AllocId;
use crate::plan::CUTS_OFF;

/// Parses the approval, which names the allocation with its full ID.
///
/// # Errors
/// If the text is another approval, or names nothing.
pub(super) fn cuts_off(text: &str) -> Result<AllocId, String> {
    match text.split_once(':') {
        Some((CUTS_OFF, alloc)) if !alloc.is_empty() => Ok(AllocId::new(alloc)),
        Some(_) | None => Err(format!(
            "the only approval of this command is `{CUTS_OFF}:` and the full ID of the allocation"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_approval_of_a_named_allocation_is_one() {
        assert_eq!(cuts_off("cuts-off:a1"), Ok(AllocId::new("a1")));
        for text in ["cuts-off:", "cuts-off", "destroys:a1", "a1", ":a1", ""] {
            assert!(cuts_off(text).is_err(), "{text}");
        }
    }
}
