//! Bytes as hexadecimal digits, in lower case, two each.
//!
//! Digits come one by one, so that whoever writes a key writes it into memory of his own and leaves
//! no copy behind.

const DIGITS: [char; 16] = [
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
];

/// The digits of some bytes, the higher one of each byte first.
pub fn hex(bytes: &[u8]) -> impl Iterator<Item = char> {
    let both = |byte: &u8| {
        [
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 0xf)],
        ]
    };
    bytes.iter().flat_map(both)
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn every_byte_has_two_digits_the_higher_first() {
        let digits: String = hex(&[0x00, 0x0f, 0xa5, 0xff]).collect();
        assert_eq!(digits, "000fa5ff");
    }
}
