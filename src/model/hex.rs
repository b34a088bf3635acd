//! Bytes as lower-case hexadecimal digits.
//!
//! The digits come as an iterator, so a caller can write a key into its own memory without a copy.

const DIGITS: [char; 16] =
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

/// Returns two digits per byte, the high one first.
pub fn hex(bytes: &[u8]) -> impl Iterator<Item = char> {
    let both = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]];
    bytes.iter().flat_map(both)
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn every_byte_has_two_digits_high_first() {
        let digits: String = hex(&[0x00, 0x0f, 0xa5, 0xff]).collect();
        assert_eq!(digits, "000fa5ff");
    }
}
