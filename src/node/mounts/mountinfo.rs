//! The parser of `/proc/self/mountinfo` (proc(5)). Pure.
//!
//! A line is `id parent major:minor root target options optional… - type source super-options`;
//! space, tab, newline, backslash and `#` in paths are octal escapes of three digits.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use nomad_csi_ports::{MountEntry, MountFlags};

/// Returns all mounts in the order of the file. Skips malformed lines.
pub(super) fn parse(text: &[u8]) -> Vec<MountEntry> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let mut fields = fields.skip(1);
    let device = String::from_utf8(fields.next()?.to_vec()).ok()?;
    let root = path(fields.next()?);
    let target = path(fields.next()?);
    let flags = flags(fields.next()?);
    // The type and the source follow the optional fields and a dash.
    let source = fields.skip_while(|field| *field != b"-").nth(2)?;
    Some(MountEntry {
        id,
        target,
        root,
        device,
        source: path(source).to_string_lossy().into_owned(),
        flags,
    })
}

fn flags(options: &[u8]) -> MountFlags {
    let mut flags = MountFlags::default();
    for option in options.split(|byte| *byte == b',') {
        match option {
            b"ro" => flags.read_only = true,
            b"noexec" => flags.no_exec = true,
            b"nosuid" => flags.no_suid = true,
            b"nodev" => flags.no_dev = true,
            b"noatime" => flags.no_atime = true,
            b"nodiratime" => flags.no_dir_atime = true,
            _ => {}
        }
    }
    flags
}

/// Decodes the octal escapes of a path.
fn path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'\\').then(|| octal(after)).flatten();
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Decodes the three octal digits at the start of `text`.
fn octal(text: &[u8]) -> Option<u8> {
    let digits = text.get(..3)?;
    let value = digits.iter().try_fold(0_u32, |value, digit| {
        char::from(*digit).to_digit(8).map(|digit| value * 8 + digit)
    })?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    fn one(line: &str) -> MountEntry {
        let mut all = parse(line.as_bytes());
        assert_eq!(all.len(), 1, "{line}");
        all.remove(0)
    }

    #[test]
    fn a_line_is_read_field_by_field() {
        let entry = one(
            "36 35 98:0 /mnt1 /mnt2 ro,noatime,nosuid,nodev,noexec,nodiratime master:1 shared:2 - ext3 /dev/root rw,errors=continue",
        );
        assert_eq!(entry.id, 36);
        assert_eq!(entry.target, PathBuf::from("/mnt2"));
        assert_eq!(entry.root, PathBuf::from("/mnt1"));
        assert_eq!(entry.device, "98:0");
        assert_eq!(entry.source, "/dev/root");
        let all = MountFlags {
            read_only: true,
            no_exec: true,
            no_suid: true,
            no_dev: true,
            no_atime: true,
            no_dir_atime: true,
        };
        assert_eq!(entry.flags, all);
        let plain = one("22 1 0:21 / /proc rw,relatime - proc proc ro");
        assert_eq!(plain.flags, MountFlags::default());
    }

    #[test]
    fn octal_escapes_in_paths_are_decoded() {
        for (escaped, decoded) in [
            (r"/a\040b", b"/a b".as_slice()),
            (r"/a\011b\012c\134d\043", b"/a\tb\nc\\d#"),
            (r"/ends\04", br"/ends\04"),
            (r"/not\octal", br"/not\octal"),
            (r"/beyond\777", br"/beyond\777"),
            (r"/twice\134040", br"/twice\040"),
        ] {
            let entry = one(&format!("1 2 0:1 {escaped} {escaped} rw - x y z"));
            assert_eq!(entry.target.as_os_str().as_bytes(), decoded, "{escaped}");
            assert_eq!(entry.root, entry.target);
        }
    }

    #[test]
    fn paths_that_are_not_utf8_are_preserved() {
        let entries = parse(b"1 2 0:1 / /caf\xe9 rw - x y z\n");
        assert_eq!(entries[0].target.as_os_str().as_bytes(), b"/caf\xe9");
    }

    #[test]
    fn malformed_lines_are_skipped() {
        assert_eq!(parse(b""), []);
        assert_eq!(parse(b"\nnonsense\n1 2 0:1 /\n"), []);
    }
}
