//! File URIs of the protocol and paths.

use std::path::{Component, Path, PathBuf};

/// Returns the path of a `file` URI; `None` for any other.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let decoded = decoded(rest)?;
    // `/C:/x` is `C:/x`.
    let drive = decoded.strip_prefix('/').filter(|rest| {
        let mut start = rest.chars();
        start.next().is_some_and(|c| c.is_ascii_alphabetic()) && start.next() == Some(':')
    });
    let path = Path::new(drive.unwrap_or(&decoded));
    let is_absolute = drive.is_some() || decoded.starts_with('/');
    is_absolute.then(|| plain(path))
}

/// Returns the URI of a path.
pub(crate) fn uri_of(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    let mut uri = "file://".to_owned();
    if !text.starts_with('/') {
        uri.push('/');
    }
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => {
                const DIGITS: [char; 16] = [
                    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
                ];
                uri.push('%');
                uri.push(DIGITS[usize::from(byte >> 4)]);
                uri.push(DIGITS[usize::from(byte & 15)]);
            }
        }
    }
    uri
}

/// Returns a path without `.` and `..`.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part @ (Component::RootDir | Component::Prefix(_) | Component::Normal(_)) => {
                plain.push(part);
            }
        }
    }
    plain
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let value = digit(high)? * 16 + digit(low)?;
                bytes.push(u8::try_from(value).ok()?);
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_its_uri() {
        for path in ["/a/b c/ä%#?.hcl", "/x.hcl"] {
            let uri = uri_of(Path::new(path));
            assert!(uri.is_ascii() && uri.starts_with("file:///"), "{uri}");
            assert_eq!(path_of(&uri).as_deref(), Some(Path::new(path)));
        }
        assert_eq!(path_of("file:///a/../b%3A.hcl"), Some(PathBuf::from("/b:.hcl")));
        assert_eq!(path_of("file:///c%3A/v.hcl"), Some(PathBuf::from("c:/v.hcl")));
        for uri in ["untitled:a", "file://server/share", "file:///%zz", "a.hcl", ""] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
    }
}
