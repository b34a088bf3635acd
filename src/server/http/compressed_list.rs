//! Compressed lists of volumes, made of groups that are kept from one list to the next.
//!
//! A list is one gzip member (RFC 1952). Each group of volumes is compressed without references to what stands
//! before it, so it can be a part of every list that has these volumes in a row. A group ends after a text whose
//! number says so, wherever it stands: a change of one volume compresses one or two groups again.
//!
//! Kept groups have two generations. When the young one has more volumes than the longest list and a quarter, it
//! becomes the old one; a group of the old generation that is used becomes young, the others are dropped.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use flate2::{Compress, CompressError, Compression, Crc, FlushCompress};
use parking_lot::{Mutex, MutexGuard};

use super::kept_stubs::Text;
use super::long_body::Pieces;

/// Of the fast levels, the one with short responses: of a list, level 1 makes a third more bytes.
pub(super) const LEVEL: u8 = 2;
/// On average, a group has so many volumes, which is about as long as references can reach.
const GROUP: u64 = 64;
const LARGEST_GROUP: usize = 256;
/// So many volumes are kept in one generation however short the lists are.
const FEW: usize = 1024;

/// Deflate, no flags, no time, an unknown system.
const MEMBER_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty block that is the last one.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Some volumes in a row, with commas between them.
#[derive(Debug)]
struct Group {
    /// Whole blocks of deflate, which end at a byte.
    blocks: Bytes,
    /// Of the bytes before compression.
    checksum: Crc,
}

type Groups = HashMap<Box<[u64]>, Arc<Group>>;

/// The kept groups.
#[derive(Debug, Default)]
pub(super) struct CompressedGroups(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    /// By the numbers of their texts.
    young: Groups,
    old: Groups,
    /// The volumes in `young`.
    volumes: usize,
    /// The volumes of the longest list so far.
    longest: usize,
}

impl CompressedGroups {
    /// Returns the JSON list of these texts as gzip.
    ///
    /// # Errors
    /// If the compressor fails, which it does not for bytes in memory.
    pub(super) fn compress(&self, texts: &[Text]) -> Result<Pieces, CompressError> {
        let mut member = Member::new();
        let mut compressor = None;
        member.store(b'[');
        for (at, texts) in grouped(texts).enumerate() {
            if at > 0 {
                member.store(b',');
            }
            let key: Box<[u64]> = texts.iter().map(|text| text.number).collect();
            let kept = self.lock().find(&key);
            if let Some(group) = kept {
                member.push(&group);
                continue;
            }
            let group = Arc::new(compressed(texts, &mut compressor)?);
            member.push(&group);
            self.lock().insert(key, group);
        }
        member.store(b']');
        self.lock().listed(texts.len());
        Ok(member.end())
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock()
    }
}

impl Generations {
    fn find(&mut self, key: &[u64]) -> Option<Arc<Group>> {
        if let Some(group) = self.young.get(key) {
            return Some(group.clone());
        }
        let (key, group) = self.old.remove_entry(key)?;
        self.insert(key, group.clone());
        Some(group)
    }

    fn insert(&mut self, key: Box<[u64]>, group: Arc<Group>) {
        self.volumes += key.len();
        self.young.insert(key, group);
    }

    /// Starts a new generation if it is time, after a list of this length.
    fn listed(&mut self, length: usize) {
        self.longest = self.longest.max(length);
        if self.volumes > self.longest + self.longest / 4 + FEW {
            self.old = std::mem::take(&mut self.young);
            self.volumes = 0;
        }
    }
}

/// The groups of a list. Their ends depend on the texts alone.
fn grouped(mut texts: &[Text]) -> impl Iterator<Item = &[Text]> {
    std::iter::from_fn(move || {
        if texts.is_empty() {
            return None;
        }
        let is_end = |text: &Text| text.number % GROUP == GROUP - 1;
        let end = texts.iter().take(LARGEST_GROUP).position(is_end);
        let length = end.map_or(LARGEST_GROUP.min(texts.len()), |end| end + 1);
        let (group, rest) = texts.split_at(length);
        texts = rest;
        Some(group)
    })
}

/// Compresses a group. `compressor` is made for the first one.
fn compressed(texts: &[Text], compressor: &mut Option<Compress>) -> Result<Group, CompressError> {
    let compressor =
        compressor.get_or_insert_with(|| Compress::new(Compression::new(u32::from(LEVEL)), false));
    compressor.reset();
    let mut plain = Vec::with_capacity(texts.iter().map(|text| text.bytes.len()).sum());
    for text in texts {
        plain.extend_from_slice(&text.bytes);
    }
    plain.pop();
    let mut checksum = Crc::new();
    checksum.update(&plain);
    let mut blocks = Vec::with_capacity(plain.len() / 4 + 64);
    let mut rest = &plain[..];
    loop {
        let before = compressor.total_in();
        compressor.compress_vec(rest, &mut blocks, FlushCompress::Sync)?;
        let taken = usize::try_from(compressor.total_in() - before).unwrap_or(rest.len());
        rest = &rest[taken..];
        if rest.is_empty() && blocks.len() < blocks.capacity() {
            break;
        }
        blocks.reserve(plain.len() / 4 + 64);
    }
    let blocks = Bytes::from(blocks.into_boxed_slice());
    Ok(Group { blocks, checksum })
}

/// A gzip member that is being written.
struct Member {
    pieces: Pieces,
    checksum: Crc,
}

impl Member {
    fn new() -> Self {
        Self { pieces: Pieces::from(MEMBER_HEAD.to_vec()), checksum: Crc::new() }
    }

    /// Adds a byte in a block of its own, not compressed: its kind, its length and the complement of it.
    fn store(&mut self, byte: u8) {
        self.checksum.update(&[byte]);
        let block = [0, 1, 0, !1, !0, byte];
        self.pieces.push(Bytes::copy_from_slice(&block));
    }

    fn push(&mut self, group: &Group) {
        self.checksum.combine(&group.checksum);
        self.pieces.push(group.blocks.clone());
    }

    fn end(mut self) -> Pieces {
        let (sum, length) = (self.checksum.sum(), self.checksum.amount());
        let end = [&LAST_BLOCK[..], &sum.to_le_bytes(), &length.to_le_bytes()].concat();
        self.pieces.push(Bytes::from(end));
        self.pieces
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::bufread::GzDecoder;
    use nomad_csi_testing::few_or_many;
    use proptest::prelude::*;

    use super::*;

    fn text(number: u64) -> Text {
        let json = format!(r#"{{"ID":"v{number}","Name":"volume {}"}},"#, number * 7919);
        Text { number, bytes: Bytes::from(json) }
    }

    fn plain(texts: &[Text]) -> String {
        let texts: Vec<_> =
            texts.iter().map(|text| std::str::from_utf8(&text.bytes).unwrap()).collect();
        format!("[{}]", texts.concat().trim_end_matches(','))
    }

    fn joined(mut pieces: Pieces) -> Vec<u8> {
        let mut bytes = vec![];
        while pieces.len() > 0 {
            bytes.extend_from_slice(&pieces.take_part());
        }
        bytes
    }

    /// Reads one member, and nothing may stand behind it.
    fn unpacked(packed: &[u8]) -> String {
        let mut decoder = GzDecoder::new(packed);
        let mut plain = String::new();
        decoder.read_to_string(&mut plain).unwrap();
        assert!(decoder.into_inner().is_empty(), "more than one member");
        plain
    }

    /// The addresses of the groups that are kept.
    fn kept(groups: &CompressedGroups) -> Vec<*const Group> {
        let generations = groups.lock();
        let all = generations.young.values().chain(generations.old.values());
        all.map(Arc::as_ptr).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(few_or_many(16, 128)))]

        /// Also if volumes come, go and change between the lists, and if lists have different volumes.
        #[test]
        fn an_unpacked_list_equals_the_plain_one(
            first in 0..500_u64,
            changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 0..60),
        ) {
            let groups = CompressedGroups::default();
            let mut texts: Vec<Text> = (0..first).map(text).collect();
            for (next, (at, what)) in (first..).zip(changes) {
                let at = at.index(texts.len() + 1);
                match what {
                    0 => texts.insert(at, text(next)),
                    1 if at < texts.len() => { texts.remove(at); }
                    2 if at < texts.len() => texts[at] = text(next),
                    _ => {}
                }
                let part = if what == 3 { &texts[..at] } else { &texts[..] };
                let packed = joined(groups.compress(part).unwrap());
                prop_assert_eq!(unpacked(&packed), plain(part));
            }
        }
    }

    #[test]
    fn a_group_that_is_hard_to_compress_is_whole() {
        let groups = CompressedGroups::default();
        let mut random = 1_u64;
        let texts: Vec<Text> = (0..70)
            .map(|number| {
                let letters = (0..2000).map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    char::from(b' ' + u8::try_from(random >> 58).unwrap())
                });
                let bytes = Bytes::from(letters.collect::<String>() + ",");
                Text { number, bytes }
            })
            .collect();
        let packed = joined(groups.compress(&texts).unwrap());
        let plain: String =
            texts.iter().map(|text| String::from_utf8(text.bytes.to_vec()).unwrap()).collect();
        assert_eq!(unpacked(&packed), format!("[{}]", &plain[..plain.len() - 1]));
    }

    #[test]
    fn a_change_compresses_its_own_group_again() {
        let groups = CompressedGroups::default();
        let mut texts: Vec<Text> = (0..6400).map(text).collect();
        groups.compress(&texts).unwrap();
        let before = kept(&groups);
        assert_eq!(before.len(), 100);
        groups.compress(&texts).unwrap();
        assert_eq!(kept(&groups).len(), 100);
        for (at, number) in [(3000, 6400), (3001, 6401)] {
            texts[at] = text(number);
        }
        texts.insert(10, text(6402));
        groups.compress(&texts).unwrap();
        let after = kept(&groups);
        assert!(before.iter().all(|group| after.contains(group)));
        assert_eq!(after.len(), 102);
    }

    /// Groups that no list uses any more are dropped, and one that every list uses stays.
    #[test]
    fn kept_groups_are_bounded() {
        let groups = CompressedGroups::default();
        let same: Vec<Text> = (0..1280).map(text).collect();
        groups.compress(&same).unwrap();
        let stays = kept(&groups);
        for round in 1..100_u64 {
            let others: Vec<Text> = (1280 * round..1280 * (round + 1)).map(text).collect();
            groups.compress(&others).unwrap();
            groups.compress(&same).unwrap();
        }
        let after = kept(&groups);
        assert!(stays.iter().all(|group| after.contains(group)));
        assert!(after.len() <= 2 * 64, "{}", after.len());
    }

    #[test]
    fn a_group_has_at_most_its_limit_of_volumes() {
        let texts: Vec<Text> = (0..1000).map(|at| text(at * GROUP)).collect();
        let lengths: Vec<usize> = grouped(&texts).map(<[Text]>::len).collect();
        assert_eq!(lengths, [256, 256, 256, 232]);
    }
}
