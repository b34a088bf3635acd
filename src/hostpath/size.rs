//! Chooses the size of a volume. Pure.
//!
//! The size is a multiple of 512 within the requested range. It is at least as large as the source,
//! and as the smallest file system of its type. If no such size exists, the request fails with
//! OUT_OF_RANGE (CSI, CreateVolume and ControllerExpandVolume).

/// The size of a sector of a block device, in bytes.
const SECTOR: u64 = 512;
/// The size of a volume if the request has no range.
pub(super) const DEFAULT_BYTES: u64 = 1 << 30;

/// The requested minimum and maximum, in bytes; 0 is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SizeRange {
    pub(super) required: u64,
    pub(super) limit: u64,
}

/// No valid size is in the range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct OutOfRange(pub(super) String);

/// Returns the smallest size in the range that is at least `min_bytes`. Without a range, returns the
/// greater of `min_bytes` and `usual`.
pub(super) fn choose(range: SizeRange, min_bytes: u64, usual: u64) -> Result<u64, OutOfRange> {
    let SizeRange { required, limit } = range;
    let requested = match required {
        0 if limit == 0 => usual.max(min_bytes),
        0 => usual.min(limit / SECTOR * SECTOR).max(min_bytes),
        required => required.max(min_bytes),
    };
    let bytes = requested
        .max(1)
        .checked_next_multiple_of(SECTOR)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| OutOfRange(format!("{requested} bytes are more than a file can have")))?;
    if limit == 0 || bytes <= limit {
        return Ok(bytes);
    }
    Err(OutOfRange(if limit < min_bytes {
        format!("the limit is {limit} bytes, and the volume needs at least {min_bytes}")
    } else {
        format!("no multiple of {SECTOR} is between {required} and {limit} bytes")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: u64 = DEFAULT_BYTES;

    #[test]
    fn a_size_is_a_multiple_of_the_sector_size_within_the_range() {
        for (required, limit, min_bytes, expected) in [
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
            let range = SizeRange { required, limit };
            let chosen = choose(range, min_bytes, USUAL);
            assert_eq!(chosen.ok(), expected, "{range:?}, at least {min_bytes}");
        }
    }
}
