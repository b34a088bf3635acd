//! The limits of what a server may send, in one place: name, meaning, default and range.
//!
//! A server may be broken or hostile. What is read costs a small multiple of its size, and these
//! limits bound the size, the number of pages and the time. `docs/security.md` lists them; a test
//! compares it with this table.

use std::time::Duration;

use nomad_csi_model::{Bytes, LimitField, set_limit};
use nomad_csi_wire::DecodeLimits;

/// The limits of what a server may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Bytes of one response, decompressed.
    pub response_bytes: usize,
    /// Seconds for a response to arrive after its first byte.
    pub response_seconds: usize,
    /// Seconds without a byte within a response.
    pub silence_seconds: usize,
    /// JSON values and keys of one document.
    pub json_values: usize,
    /// Pages of one list.
    pub list_pages: usize,
    /// Entries of one list, on all pages.
    pub list_items: usize,
    /// Bytes of all pages of one list.
    pub list_bytes: usize,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self {
            response_bytes: 64 << 20,
            response_seconds: 600,
            silence_seconds: 60,
            json_values: 500_000,
            list_pages: 10_000,
            list_items: 200_000,
            list_bytes: 256 << 20,
        }
    }
}

/// One limit of responses.
type Field = LimitField<ResponseLimits>;

/// All limits, in the order of the documentation.
pub const RESPONSE_LIMITS: &[Field] = &[
    Field::size("response-bytes", "one response, decompressed", (1 << 10, 1 << 32), |limits| {
        &mut limits.response_bytes
    }),
    Field::number(
        "response-seconds",
        "seconds for a response to arrive after its first byte",
        (1, 86_400),
        |limits| &mut limits.response_seconds,
    ),
    Field::number(
        "silence-seconds",
        "seconds without a byte within a response",
        (1, 3600),
        |limits| &mut limits.silence_seconds,
    ),
    Field::number(
        "json-values",
        "JSON values and keys of one document, such as a volume or a page of a provider's list",
        (100, 1 << 30),
        |limits| &mut limits.json_values,
    ),
    Field::number("list-pages", "pages of one list", (1, 1 << 30), |limits| &mut limits.list_pages),
    Field::number("list-items", "entries of one list, on all pages", (1, 1 << 30), |limits| {
        &mut limits.list_items
    }),
    Field::size("list-bytes", "all pages of one list", (1 << 10, 1 << 40), |limits| {
        &mut limits.list_bytes
    }),
];

impl ResponseLimits {
    /// Changes a limit, given as `NAME=VALUE`.
    ///
    /// # Errors
    /// Returns why the text is not a limit.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        set_limit(self, RESPONSE_LIMITS, text)
    }

    pub(super) fn response_time(&self) -> Duration {
        Duration::from_secs(self.response_seconds as u64)
    }

    pub(super) fn silence(&self) -> Duration {
        Duration::from_secs(self.silence_seconds as u64)
    }

    /// The limits of one document. Its lists have no limit of their own.
    pub(super) fn document(&self) -> DecodeLimits {
        DecodeLimits { json_values: self.json_values, list_elements: usize::MAX }
    }
}

/// Returns a size in messages.
pub(super) fn limit_size(bytes: usize) -> Bytes {
    Bytes::new(bytes as u64).unwrap_or(Bytes::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_can_be_set_within_its_range() {
        for limit in RESPONSE_LIMITS {
            let mut limits = ResponseLimits::default();
            let (min, max) = limit.range;
            assert!((min..=max).contains(&limit.get(&limits)), "{}", limit.name);
            for number in [min, max] {
                limits.set(&format!("{}={number}", limit.name)).unwrap();
                assert_eq!(limit.get(&limits), number, "{}", limit.name);
            }
            for beyond in [min - 1, max + 1] {
                assert!(limits.set(&format!("{}={beyond}", limit.name)).is_err());
            }
        }
    }
}
