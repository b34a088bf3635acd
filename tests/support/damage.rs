//! Damage to a file: other bytes, zeroes, or a lost end.

use super::random::Random;

/// The page size of the embedded database.
const PAGE: usize = 4096;

/// Damages one place of `bytes`, in a page that has content.
pub(crate) fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut below = |limit: usize| usize::try_from(random.below(limit as u64)).unwrap();
    let pages = bytes.chunks(PAGE).enumerate();
    let used: Vec<_> = pages
        .filter(|(_, page)| page.iter().any(|byte| *byte != 0))
        .map(|(page, _)| page)
        .collect();
    let start = (used[below(used.len())] * PAGE + below(PAGE)).min(bytes.len() - 1);
    let end = bytes.len().min(start + 1 + below(PAGE));
    match below(4) {
        0 => bytes.truncate(start),
        1 => bytes[start..end].fill(0),
        2 => bytes[start] ^= 1 << below(8),
        _ => {
            bytes[start..end].iter_mut().for_each(|byte| *byte = u8::try_from(below(256)).unwrap());
        }
    }
}
