//! Lines and columns of a text, for texts of any shape.
//!
//! Counts at every block of a text make each query read at most two blocks, whether the text is one
//! line or nothing but line ends. The index costs a 500th of the text.

/// Bytes between two counts.
const BLOCK: usize = 4096;

/// The counts before one block.
#[derive(Clone, Copy, Default)]
struct BlockStart {
    line_ends: u32,
    characters: u32,
}

/// The index of one text.
pub(super) struct LineIndex {
    blocks: Vec<BlockStart>,
}

impl LineIndex {
    pub(super) fn new(text: &str) -> Self {
        let mut start = BlockStart::default();
        let blocks = text.as_bytes().chunks(BLOCK).map(|block| {
            let before = start;
            start.line_ends += line_ends(block);
            start.characters += characters(block);
            before
        });
        let mut blocks: Vec<_> = blocks.collect();
        blocks.push(start);
        Self { blocks }
    }

    /// Returns line and column of a byte, both from 1. The column counts characters.
    pub(super) fn location(&self, text: &str, at: usize) -> (usize, usize) {
        let bytes = text.as_bytes();
        let at = at.min(bytes.len());
        let block = at / BLOCK;
        let inside = &bytes[block * BLOCK..at];
        let line_ends = self.blocks[block].line_ends + line_ends(inside);
        let line_start = self.line_start(bytes, inside, block, line_ends);
        let column = self.characters_before(bytes, at) - self.characters_before(bytes, line_start);
        (line_ends as usize + 1, column as usize + 1)
    }

    /// Returns the first byte of the line that follows this many line ends.
    fn line_start(&self, bytes: &[u8], inside: &[u8], block: usize, line_ends: u32) -> usize {
        if let Some(found) = last_line_end(inside) {
            return block * BLOCK + found + 1;
        }
        // The last block that starts with fewer line ends contains the last one.
        let next = self.blocks.partition_point(|one| one.line_ends < line_ends);
        let Some(block) = next.checked_sub(1) else {
            return 0;
        };
        let end = bytes.len().min((block + 1) * BLOCK);
        last_line_end(&bytes[block * BLOCK..end]).map_or(0, |found| block * BLOCK + found + 1)
    }

    fn characters_before(&self, bytes: &[u8], at: usize) -> u32 {
        let block = at / BLOCK;
        self.blocks[block].characters + characters(&bytes[block * BLOCK..at])
    }
}

fn last_line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|byte| *byte == b'\n')
}

#[expect(clippy::cast_possible_truncation, reason = "a block has 4096 bytes")]
fn line_ends(block: &[u8]) -> u32 {
    block.iter().filter(|byte| **byte == b'\n').count() as u32
}

#[expect(clippy::cast_possible_truncation, reason = "a block has 4096 bytes")]
fn characters(block: &[u8]) -> u32 {
    let starts = block.iter().filter(|byte| **byte & 0xc0 != 0x80);
    starts.count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious way, which reads the whole text.
    fn slow(text: &str, at: usize) -> (usize, usize) {
        let before = &text[..at];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let lines = before.matches('\n').count();
        (lines + 1, before[start..].chars().count() + 1)
    }

    #[test]
    fn every_shape_of_text_has_the_places_of_a_full_count() {
        let long = format!("{}\n{}", "日x".repeat(5000), "y".repeat(9000));
        let mixed = format!("a\n{}\n\n{}b\n", "ä".repeat(4095), "z".repeat(4096));
        for text in ["", "a", "\n", &"\n".repeat(10_000), &"x".repeat(8192), &long, &mixed] {
            let index = LineIndex::new(text);
            let near = |at: &usize| {
                at.is_multiple_of(997)
                    || [0, 1, BLOCK - 1].contains(&(at % BLOCK))
                    || text.len() - at < 3
            };
            let places = (0..=text.len()).filter(near);
            for at in places.filter(|at| text.is_char_boundary(*at)) {
                assert_eq!(index.location(text, at), slow(text, at), "{at} of {}", text.len());
            }
        }
    }
}
