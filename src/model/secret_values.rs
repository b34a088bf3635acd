//! Finds and hides secrets in texts that come from outside, such as a plugin's error.
//!
//! A secret is found as it is, escaped as in JSON or a quoted string, percent-encoded as in a URL, and in base64 at
//! any position, also in two of these forms at once. Of a secret that is cut off, [`PREFIX`] bytes from its
//! start are enough, or [`SHORTEST`] before the end of the text or an ellipsis; of one that is quoted in part, such as a line of
//! a key, [`PART`] bytes. A value of several lines, a flag `name=value` and a JSON document are secret in their
//! parts too. Values of less than [`SHORTEST`] bytes are not hidden: they are in every text.

use std::collections::{HashMap, VecDeque};

use zeroize::Zeroizing;

use super::display::{boundary_after, boundary_before};
use super::mount_options::MountOptions;
use super::secrets::Secret;

/// The shortest value that is hidden, in bytes.
const SHORTEST: usize = 4;
/// How many bytes from the start of a value are hidden wherever they are.
const PREFIX: usize = 8;
/// How many bytes from the middle of a value are hidden.
const PART: usize = 12;
/// The shortest value that an address must not contain. A user or a pool that has the name of a volume is shorter.
const SHORTEST_IN_ADDRESS: usize = 8;
/// How many values are remembered. The oldest one is forgotten.
const MOST_VALUES: usize = 1024;
/// How many bytes of values are remembered.
const MOST_BYTES: usize = 4 << 20;
/// How many places with the same four bytes are compared, except at the start of a value.
const MOST_PLACES: usize = 16;

/// Values that no text may contain.
#[derive(Default)]
pub struct SecretValues {
    values: VecDeque<Secret>,
    /// True if a part of a value is no secret.
    only_whole: bool,
    bytes: usize,
    /// The values that start with these bytes.
    starts: HashMap<[u8; SHORTEST], Vec<usize>>,
    /// Values and positions that have these bytes.
    places: HashMap<[u8; SHORTEST], Vec<(usize, usize)>>,
}

impl std::fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretValues({} hidden)", self.values.len())
    }
}

impl SecretValues {
    /// Values of which no part is hidden: they may begin with the name of what they are for, as texts do.
    pub fn only_whole() -> Self {
        Self { only_whole: true, ..Self::default() }
    }

    /// Adds a value and its parts.
    pub fn add(&mut self, value: &str) {
        self.add_one(value);
        for line in value.lines() {
            self.add_one(line.trim());
            if let Some((_, of_flag)) = line.split_once('=') {
                self.add_one(of_flag.trim().trim_matches(['"', '\'']));
            }
        }
        if value.trim_start().starts_with(['{', '[']) {
            // What is no document has no further parts.
            if let Ok(document) = serde_json::from_str(value) {
                self.add_texts(&document);
            }
        }
    }

    /// Adds every text of a document, at any level.
    pub fn add_texts(&mut self, document: &serde_json::Value) {
        match document {
            serde_json::Value::String(text) => self.add_one(text),
            serde_json::Value::Array(values) => {
                values.iter().for_each(|value| self.add_texts(value));
            }
            serde_json::Value::Object(values) => {
                values.values().for_each(|value| self.add_texts(value));
            }
            serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
            }
        }
    }

    fn add_one(&mut self, value: &str) {
        let Some(start) = value.as_bytes().first_chunk::<SHORTEST>() else {
            return;
        };
        let with_this_start = self.starts.get(start).into_iter().flatten();
        let mut known = with_this_start.filter_map(|at| self.values.get(*at));
        if known.any(|known| known.as_str() == value) {
            return;
        }
        self.bytes += value.len();
        self.values.push_back(Zeroizing::new(value.to_owned()));
        if self.values.len() <= MOST_VALUES && self.bytes <= MOST_BYTES {
            self.index(self.values.len() - 1);
            return;
        }
        while self.values.len() > 1
            && (self.values.len() > MOST_VALUES / 2 || self.bytes > MOST_BYTES / 2)
        {
            let oldest = self.values.pop_front();
            self.bytes -= oldest.map_or(0, |value| value.len());
        }
        self.starts.clear();
        self.places.clear();
        (0..self.values.len()).for_each(|at| self.index(at));
    }

    fn index(&mut self, at: usize) {
        let Some(value) = self.values.get(at) else {
            return;
        };
        let (windows, _) = value.as_bytes().as_chunks::<SHORTEST>();
        for (number, window) in windows.iter().enumerate() {
            if number == 0 {
                self.starts.entry(*window).or_default().push(at);
                continue;
            }
            let places = self.places.entry(*window).or_default();
            if places.len() < MOST_PLACES {
                places.push((at, number * SHORTEST));
            }
        }
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the text with `[REDACTED]` for each value; `None` if it has none.
    pub fn hidden_in(&self, text: &str) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let mut spans: Vec<(usize, usize)> = vec![];
        for reading in Reading::all(text) {
            for (from, to) in self.found_in(&reading.bytes) {
                spans.push((reading.origins[from].0, reading.origins[to - 1].1));
            }
        }
        if spans.is_empty() {
            return None;
        }
        spans.sort_unstable();
        let (mut hidden, mut shown_to) = (String::new(), 0);
        for (from, to) in spans {
            let from = boundary_before(text, from);
            let to = boundary_after(text, to);
            if from >= shown_to && (from > shown_to || shown_to == 0) {
                hidden.push_str(&text[shown_to..from]);
                hidden.push_str(MountOptions::REDACTED);
            }
            shown_to = shown_to.max(to);
        }
        hidden.push_str(&text[shown_to..]);
        Some(hidden)
    }

    /// Returns whether the text contains a whole value that is long enough to be no coincidence.
    pub fn is_in_address(&self, text: &str) -> bool {
        let values = self.values.iter();
        let mut long = values.filter(|value| value.len() >= SHORTEST_IN_ADDRESS);
        let readings: Vec<_> = Reading::all(text).collect();
        long.any(|value| {
            let mut readings = readings.iter();
            readings.any(|reading| contains(&reading.bytes, value.as_bytes()))
        })
    }

    /// Returns the spans of values, and of parts that are long enough.
    fn found_in(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut spans = vec![];
        let mut at = 0;
        while let Some(window) = text.get(at..).and_then(|rest| rest.first_chunk::<SHORTEST>()) {
            let starts = self.starts.get(window).into_iter().flatten();
            let starts = starts.map(|value| (*value, 0));
            let places = self.places.get(window).into_iter().flatten().copied();
            let spans_here = starts.chain(places);
            let span = spans_here
                .filter_map(|(value, offset)| self.span(text, at, value, offset))
                .max_by_key(|(from, to)| to - from);
            match span {
                Some((from, to)) => {
                    spans.push((from, to));
                    at = to.max(at + 1);
                }
                None => at += 1,
            }
        }
        spans
    }

    /// The span in which the text equals the value, which has at `offset` what the text has at `at`.
    fn span(&self, text: &[u8], at: usize, value: usize, offset: usize) -> Option<(usize, usize)> {
        let value = self.values.get(value)?.as_bytes();
        let equal = |(one, other): (&u8, &u8)| one == other;
        let after = text[at..].iter().zip(&value[offset..]);
        let after = after.take_while(|pair| equal(*pair)).count();
        let before = text[..at].iter().rev().zip(value[..offset].iter().rev());
        let before = before.take_while(|pair| equal(*pair)).count();
        let (from, to) = (at - before, at + after);
        let length = to - from;
        let is_found = if self.only_whole {
            length == value.len()
        } else if before == offset {
            length == value.len()
                || length >= PREFIX
                || (length >= SHORTEST && is_cut_off(&text[to..]))
        } else {
            length >= PART
        };
        is_found.then_some((from, to))
    }
}

/// Returns whether a text that goes on with these bytes was cut off before them.
fn is_cut_off(rest: &[u8]) -> bool {
    let end = rest.iter().all(|byte| !byte.is_ascii_alphanumeric());
    let is_short = rest.len() <= 4;
    (end && is_short) || rest.starts_with(b"...") || rest.starts_with("\u{2026}".as_bytes())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A text as it is or decoded, with the place in the original text of each byte.
struct Reading {
    bytes: Vec<u8>,
    origins: Vec<(usize, usize)>,
}

/// How a text may be encoded.
type Decoding = fn(&Reading) -> Option<Reading>;

impl Reading {
    /// Returns the text as it is, and every way to decode it once and twice.
    fn all(text: &str) -> impl Iterator<Item = Self> {
        let plain = Self {
            bytes: text.as_bytes().to_vec(),
            origins: (0..text.len()).map(|at| (at, at + 1)).collect(),
        };
        let mut readings = vec![plain];
        let mut first = 0;
        for _ in 0..2 {
            let last = readings.len();
            for at in first..last {
                let decoded: Vec<_> =
                    DECODINGS.iter().filter_map(|decode| decode(&readings[at])).collect();
                readings.extend(decoded);
            }
            first = last;
        }
        let encoded: Vec<_> = readings.iter().flat_map(Self::of_base64).collect();
        readings.into_iter().chain(encoded)
    }

    fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), origins: Vec::with_capacity(bytes) }
    }

    fn push(&mut self, bytes: &[u8], origin: (usize, usize)) {
        for byte in bytes {
            self.bytes.push(*byte);
            self.origins.push(origin);
        }
    }

    /// Decodes what `escape` finds: how many bytes are escaped, and what they stand for.
    fn decoded(&self, escape: impl Fn(&[u8]) -> Option<(usize, char)>) -> Option<Self> {
        let mut decoded = Self::with_capacity(self.bytes.len());
        let (mut at, mut is_changed) = (0, false);
        while at < self.bytes.len() {
            match escape(&self.bytes[at..]) {
                Some((length, letter)) => {
                    let origin = (self.origins[at].0, self.origins[at + length - 1].1);
                    match u8::try_from(letter) {
                        // A byte of a percent-encoded or quoted letter stands for itself.
                        Ok(byte) if length == 3 || length == 4 => decoded.push(&[byte], origin),
                        Ok(_) | Err(_) => {
                            decoded.push(letter.encode_utf8(&mut [0; 4]).as_bytes(), origin);
                        }
                    }
                    at += length;
                    is_changed = true;
                }
                None => {
                    decoded.push(&self.bytes[at..=at], self.origins[at]);
                    at += 1;
                }
            }
        }
        is_changed.then_some(decoded)
    }

    /// Decodes every word that may be base64, from each of its first four letters on.
    fn of_base64(&self) -> Vec<Self> {
        let mut words = vec![];
        let mut at = 0;
        while at < self.bytes.len() {
            let letters = self.bytes[at..].iter();
            let length = letters.take_while(|byte| six_bits(**byte).is_some()).count();
            // Six letters have the four bytes of the shortest value.
            if length >= 6 {
                for first in at..at + 4 {
                    words.push(self.base64_word(first, (at, at + length)));
                }
            }
            at += length.max(1);
        }
        words
    }

    fn base64_word(&self, first: usize, word: (usize, usize)) -> Self {
        let padding = self.bytes[word.1..].iter().take(2);
        let end = word.1 + padding.take_while(|byte| **byte == b'=').count();
        let origin = (self.origins[word.0].0, self.origins[end - 1].1);
        let mut decoded = Self::with_capacity(word.1 - first);
        let (mut bits, mut count) = (0_u32, 0);
        for byte in &self.bytes[first..word.1] {
            bits = bits << 6 | u32::from(six_bits(*byte).unwrap_or_default());
            count += 6;
            if count >= 8 {
                count -= 8;
                decoded.push(&[(bits >> count).to_be_bytes()[3]], origin);
            }
            bits &= 0xff;
        }
        decoded
    }
}

/// Returns what one letter of base64 stands for, in the usual alphabet and in that of URLs.
fn six_bits(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

const DECODINGS: [Decoding; 3] = [
    |text| text.decoded(quoted),
    |text| text.decoded(percent),
    |text| text.decoded(|rest| form_space(rest).or_else(|| percent(rest))),
];

/// A letter that is escaped as in JSON, Go, C or a shell.
fn quoted(rest: &[u8]) -> Option<(usize, char)> {
    let [b'\\', kind, rest @ ..] = rest else {
        return None;
    };
    let simple = |letter| Some((2, letter));
    match kind {
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'0' => simple('\0'),
        b'u' => Some((6, char::from_u32(hex_number(rest.get(..4)?)?)?)),
        b'x' => Some((4, char::from_u32(hex_number(rest.get(..2)?)?)?)),
        other if other.is_ascii_punctuation() => simple(char::from(*other)),
        _ => None,
    }
}

/// A byte that is percent-encoded.
fn percent(rest: &[u8]) -> Option<(usize, char)> {
    match rest {
        [b'%', digits @ ..] => Some((3, char::from_u32(hex_number(digits.get(..2)?)?)?)),
        _ => None,
    }
}

/// A space in a form.
fn form_space(rest: &[u8]) -> Option<(usize, char)> {
    (rest.first() == Some(&b'+')).then_some((1, ' '))
}

fn hex_number(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests;
