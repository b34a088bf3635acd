//! Runs code of a library that panics on damaged data.
//!
//! The embedded database panics on some damaged files. Such a panic is an error about the file, not a
//! fault of this program: it becomes a value, and the standard error shows nothing of it.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A panic of contained code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file is damaged: {0}")]
pub struct ContainedPanic(String);

/// Runs `work`, and returns its panic as an error. What `work` changed must not be used afterwards.
///
/// # Errors
/// If `work` panics.
pub fn contained<T>(work: impl FnOnce() -> T) -> Result<T, ContainedPanic> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let outer = take_hook();
        set_hook(Box::new(move |panic| {
            if DEPTH.get() == 0 {
                outer(panic);
            }
        }));
    });
    DEPTH.set(DEPTH.get() + 1);
    let ended = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    ended.map_err(|payload| ContainedPanic(message(&*payload)))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let fixed = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = fixed.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "unknown reason".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_the_next_call_works() {
        for text in ["one", "two"] {
            let ended = contained(|| -> u8 { panic!("{text}") });
            assert_eq!(ended, Err(ContainedPanic(text.to_owned())));
        }
        let outer = contained(|| contained(|| -> u8 { panic!("inner") }));
        assert_eq!(outer, Ok(Err(ContainedPanic("inner".to_owned()))));
        assert_eq!(contained(|| 1), Ok(1));
        assert_eq!(DEPTH.get(), 0);
    }
}
