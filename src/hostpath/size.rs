//! How large a volume becomes. Pure.
//!
//! A range is honoured exactly or refused with OUT_OF_RANGE (`csi-spec` 5.2, 5.15): the size is a
//! multiple of 512 within it, no smaller than what it begins with and than its file system can be.

/// A block device is measured in sectors of so many bytes.
const SECTOR: u64 = 512;
/// The size of a volume for which none is asked.
pub(super) const DEFAULT_BYTES: u64 = 1 << 30;

/// At least and at most so many bytes; 0 is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) required: u64,
    pub(super) limit: u64,
}

/// No size is in the range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct OutOfRange(pub(super) String);

/// The smallest size in the range that is at least `least`; without a range, the greater of `least`
/// and `usual`.
pub(super) fn decide(range: Range, least: u64, usual: u64) -> Result<u64, OutOfRange> {
    let Range { required, limit } = range;
    let wanted = match required {
        0 if limit == 0 => usual.max(least),
        0 => usual.min(limit / SECTOR * SECTOR).max(least),
        required => required.max(least),
    };
    let bytes = wanted
        .max(1)
        .checked_next_multiple_of(SECTOR)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| OutOfRange(format!("{wanted} bytes are more than a file can have")))?;
    if limit == 0 || bytes <= limit {
        return Ok(bytes);
    }
    Err(OutOfRange(if limit < least {
        format!("at most {limit} bytes are allowed, and the volume needs at least {least}")
    } else {
        format!("no multiple of {SECTOR} is between {required} and {limit} bytes")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: u64 = DEFAULT_BYTES;

    #[test]
    fn the_size_is_a_whole_number_of_sectors_within_the_range() {
        for (required, limit, least, expected) in [
            (0, 0, 0, Some(USUAL)),
            (0, 0, 2 * USUAL, Some(2 * USUAL)),
            (1, 0, 0, Some(512)),
            (512, 512, 0, Some(512)),
            (513, 1023, 0, None),
            (513, 1024, 0, Some(1024)),
            (1, 511, 0, None),
            (0, 511, 0, None),
            (0, 5000, 0, Some(4608)),
            (1000, 0, 4096, Some(4096)),
            (1000, 4095, 4096, None),
            (1000, 4096, 4096, Some(4096)),
            (u64::MAX, 0, 0, None),
            (i64::MAX as u64, 0, 0, None),
        ] {
            let range = Range { required, limit };
            let decided = decide(range, least, USUAL);
            assert_eq!(decided.ok(), expected, "{range:?}, at least {least}");
        }
    }
}
