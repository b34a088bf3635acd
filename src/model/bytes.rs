//! Sizes in bytes, parsed as Nomad parses them and printed exactly.
//!
//! The grammar is that of go-humanize, which Nomad uses for `capacity_min` and `capacity_max`: digits
//! with `.` and `,`, and an optional unit in any case. `20G` is 20·10⁹, `20Gi` is 20·2³⁰. Unlike
//! Nomad, whole numbers are exact beyond 2⁵³, and sizes of 8 EiB and more are refused instead of
//! becoming negative.

use serde::{Deserialize, Serialize};

/// A size in bytes, at most `i64::MAX`, the limit of Nomad's JSON and of CSI.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BytesError {
    /// The text does not start with a number.
    #[error("`{0}` does not start with a number")]
    NotANumber(String),
    /// The size is negative.
    #[error("a size cannot be negative")]
    Negative,
    /// The unit is unknown.
    #[error(
        "`{0}` is not a unit of size; use B, kB, MB, GB, TB, PB, EB or KiB, MiB, GiB, TiB, PiB, EiB"
    )]
    UnknownUnit(String),
    /// The size exceeds 63 bits.
    #[error("`{0}` is 8 EiB or more; the size must be less than 8 EiB")]
    TooLarge(String),
}

const DECIMAL: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
const BINARY: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl Bytes {
    /// Zero, which means "not given" in a capacity range.
    pub const ZERO: Self = Self(0);
    /// The largest size.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Creates a size; `None` if it is too large.
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes <= Self::MAX.0 { Some(Self(bytes)) } else { None }
    }

    /// Creates a size from Nomad's or CSI's integer. A negative value becomes zero.
    pub fn from_wire(bytes: i64) -> Self {
        Self(u64::try_from(bytes).unwrap_or_default())
    }

    /// Returns Nomad's and CSI's integer.
    #[expect(clippy::cast_possible_wrap, reason = "at most i64::MAX by construction")]
    pub const fn to_wire(self) -> i64 {
        self.0 as i64
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whether the size is zero, which means "not given" in a capacity range.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Parses a size as Nomad does.
    ///
    /// # Errors
    /// Fails if the text is not a size, is negative, or exceeds 63 bits.
    pub fn parse(text: &str) -> Result<Self, BytesError> {
        let trimmed = text.trim();
        if trimmed.starts_with('-') {
            return Err(BytesError::Negative);
        }
        let digits_end =
            trimmed.find(|c: char| !matches!(c, '0'..='9' | '.' | ',')).unwrap_or(trimmed.len());
        let digits = trimmed[..digits_end].replace(',', "");
        let unit = trimmed[digits_end..].trim();
        if digits.is_empty() || digits == "." {
            return Err(BytesError::NotANumber(text.to_owned()));
        }
        let factor = factor(unit).ok_or_else(|| BytesError::UnknownUnit(unit.to_owned()))?;
        let too_large = || BytesError::TooLarge(text.to_owned());
        if digits.contains('.') {
            let number: f64 =
                digits.parse().map_err(|_| BytesError::NotANumber(text.to_owned()))?;
            #[expect(
                clippy::cast_precision_loss,
                reason = "units are powers well below 2^63, exact as floats"
            )]
            let factor = factor as f64;
            return whole(number * factor).and_then(Self::new).ok_or_else(too_large);
        }
        let number: u64 = digits.parse().map_err(|_| too_large())?;
        number.checked_mul(factor).and_then(Self::new).ok_or_else(too_large)
    }

    /// Formats like Nomad's CLI: binary units, one decimal below ten: `10 GiB`, `1.5 GiB`, `9 B`.
    pub fn binary(self) -> String {
        humanize(self.0, 1024.0, &BINARY)
    }

    /// Formats like Nomad's messages, in decimal units: `11 GB`.
    pub fn decimal(self) -> String {
        humanize(self.0, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
    }
}

/// Writes the shortest text that [`Bytes::parse`] reads back exactly: `10GiB`, `20GB`, `1025B`.
impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let exact = |base: u64, units: &[&'static str; 7]| {
            let mut number = self.0;
            let mut exponent = 0;
            while number > 0 && number.is_multiple_of(base) && exponent < 6 {
                number /= base;
                exponent += 1;
            }
            (number, units[exponent])
        };
        let (binary, decimal) = (exact(1024, &BINARY), exact(1000, &DECIMAL));
        let (number, unit) = if decimal.0 < binary.0 { decimal } else { binary };
        write!(f, "{number}{unit}")
    }
}

fn factor(unit: &str) -> Option<u64> {
    let unit = unit.to_lowercase();
    let exponent = |letter: &str| ["k", "m", "g", "t", "p", "e"].iter().position(|l| *l == letter);
    let power = |base: u64, at: usize| (0..=at).fold(1, |product: u64, _| product * base);
    match unit.as_str() {
        "" | "b" => Some(1),
        _ => match unit.strip_suffix("ib").or_else(|| unit.strip_suffix('i')) {
            Some(letter) => exponent(letter).map(|at| power(1024, at)),
            None => exponent(unit.strip_suffix('b').unwrap_or(&unit)).map(|at| power(1000, at)),
        },
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be below 2^63; fractions of a byte are truncated, as in go-humanize"
)]
fn whole(number: f64) -> Option<u64> {
    (number < 9_223_372_036_854_775_808.0).then_some(number as u64)
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn humanize(bytes: u64, base: f64, units: &[&str; 7]) -> String {
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let mut number = bytes as f64;
    let mut exponent = 0;
    while number >= base && exponent < 6 {
        number /= base;
        exponent += 1;
    }
    let rounded = (number * 10.0 + 0.5).floor() / 10.0;
    let unit = units[exponent];
    if rounded < 10.0 { format!("{rounded:.1} {unit}") } else { format!("{rounded:.0} {unit}") }
}

/// The requested size of a volume. Zero means "not given" for each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CapacityRange {
    /// The minimum size: CSI's `required_bytes`.
    pub min: Bytes,
    /// The maximum size: CSI's `limit_bytes`.
    pub max: Bytes,
}

impl CapacityRange {
    /// Returns whether both limits are missing. No range is then sent to the plugin (Nomad GH-11238).
    pub fn is_unset(self) -> bool {
        self.min.is_zero() && self.max.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn sizes_parse_as_in_nomad() {
        for (text, expected) in [
            ("10 MiB", 10 << 20),
            ("1G", 1_000_000_000),
            ("20G", 20_000_000_000),
            ("20 gib", 20 * GIB),
            ("20Gi", 20 * GIB),
            ("1,000 MB", 1_000_000_000),
            ("1.5GiB", GIB + GIB / 2),
            ("1.5", 1),
            ("5.", 5),
            (".5k", 500),
            ("0", 0),
            (" 10GiB ", 10 * GIB),
            ("9007199254740993", 9_007_199_254_740_993),
            ("7EiB", 7 << 60),
        ] {
            assert_eq!(Bytes::parse(text), Ok(Bytes(expected)), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused_with_a_reason() {
        use BytesError::{Negative, NotANumber, TooLarge, UnknownUnit};
        for (text, expected) in [
            ("", NotANumber(String::new())),
            ("GiB", NotANumber("GiB".into())),
            ("true", NotANumber("true".into())),
            (".", NotANumber(".".into())),
            ("1.2.3", NotANumber("1.2.3".into())),
            ("-1", Negative),
            ("10XB", UnknownUnit("XB".into())),
            ("1e3", UnknownUnit("e3".into())),
            ("0x10", UnknownUnit("x10".into())),
            ("9EiB", TooLarge("9EiB".into())),
            ("8EiB", TooLarge("8EiB".into())),
            ("16.5EiB", TooLarge("16.5EiB".into())),
            ("18446744073709551616", TooLarge("18446744073709551616".into())),
        ] {
            assert_eq!(Bytes::parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn every_printed_size_reads_back_exactly() {
        for (bytes, shown) in [
            (0, "0B"),
            (1, "1B"),
            (1024, "1KiB"),
            (1025, "1025B"),
            (10 * GIB, "10GiB"),
            (20_000_000_000, "20GB"),
            (i64::MAX as u64, "9223372036854775807B"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), shown);
            assert_eq!(Bytes::parse(shown), Ok(Bytes(bytes)));
        }
    }

    #[test]
    fn tables_show_sizes_as_nomad_does() {
        for (bytes, binary, decimal) in [
            (9, "9 B", "9 B"),
            (1024, "1.0 KiB", "1.0 kB"),
            (1500, "1.5 KiB", "1.5 kB"),
            (10 * GIB, "10 GiB", "11 GB"),
            (20_000_000_000, "19 GiB", "20 GB"),
        ] {
            assert_eq!(
                (Bytes(bytes).binary().as_str(), Bytes(bytes).decimal().as_str()),
                (binary, decimal)
            );
        }
    }
}
