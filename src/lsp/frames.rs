//! Reads the messages of an editor from a stream, and goes on after one that is broken.
//!
//! A message is a header with a length, and JSON of that length. What is no header is skipped line by line, and a content
//! that is too large is read past, so that the next message is found again.

use std::io::{self, BufRead, Read as _};

use lsp_server::Message;

/// What a stream has next.
#[derive(Debug)]
pub(crate) enum Frame {
    Message(Message),
    /// No message, for this reason.
    Broken(&'static str),
}

/// Limit of a line of a header.
const MAX_HEADER_LINE: u64 = 4 << 10;

/// Limit of the content of a message: a file is at most 16 MiB, and JSON writes some characters with six.
const MAX_CONTENT: u64 = 128 << 20;

/// Reads the next message; `None` at the end of the stream.
///
/// # Errors
/// If the stream cannot be read.
pub(crate) fn read_frame(stream: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let mut length: Option<u64> = None;
    let mut is_first = true;
    loop {
        let mut line = vec![];
        stream.by_ref().take(MAX_HEADER_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() && is_first {
            return Ok(Some(Frame::Broken("the header is empty")));
        }
        if line.is_empty() {
            break;
        }
        is_first = false;
        let Some((name, value)) = line.split_once(':') else {
            return Ok(Some(Frame::Broken("a line of the header has no name")));
        };
        // After a content that was longer than its length, the name has the rest of it before.
        let name = name.trim().to_ascii_lowercase();
        if name.ends_with("content-length") {
            length = value.trim().parse().ok();
        }
    }
    let Some(length) = length else {
        return Ok(Some(Frame::Broken("the header has no valid Content-Length")));
    };
    if length > MAX_CONTENT {
        io::copy(&mut stream.by_ref().take(length), &mut io::sink())?;
        return Ok(Some(Frame::Broken("the message is larger than 128 MiB")));
    }
    let mut content = vec![];
    stream.by_ref().take(length).read_to_end(&mut content)?;
    if (content.len() as u64) < length {
        return Ok(None);
    }
    Ok(Some(match serde_json::from_slice(&content) {
        Ok(message) => Frame::Message(message),
        Err(_) => Frame::Broken("the content is not a message in JSON"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8]) -> Vec<String> {
        let mut stream = bytes;
        let mut found = vec![];
        while let Ok(Some(frame)) = read_frame(&mut stream) {
            found.push(match frame {
                Frame::Message(Message::Request(request)) => request.method,
                Frame::Message(Message::Notification(notification)) => notification.method,
                Frame::Message(Message::Response(_)) => "response".to_owned(),
                Frame::Broken(why) => format!("broken: {why}"),
            });
        }
        found
    }

    const GOOD: &str =
        "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"good\"}";

    /// After each broken message, a good one is read.
    #[test]
    fn a_broken_message_does_not_end_the_stream() {
        assert_eq!(frames(GOOD.as_bytes()), ["good"]);
        for broken in [
            &b"\r\n"[..],
            b"nonsense\r\n",
            b"Content-Length: x\r\n\r\n",
            b"Content-Length: -1\r\n\r\n",
            b"Content-Type: x\r\n\r\n",
            b"Content-Length: 2\r\n\r\n{]",
            b"Content-Length: 2\r\n\r\n{}",
            b"Content-Length: 2\r\n\r\n\xff\xfe",
            b"Content-Length: 4\r\n\r\nnull",
            b"\xff\xfe: 3\r\n\r\n",
            b"Content-Length: 9\r\n\r\n[1,2,3,4]",
        ] {
            let text = [broken, GOOD.as_bytes()].concat();
            let found = frames(&text);
            let shown = String::from_utf8_lossy(broken);
            assert_eq!(found.len(), 2, "{shown}: {found:?}");
            assert!(found[0].starts_with("broken"), "{shown}: {found:?}");
            assert_eq!(found[1], "good", "{shown}");
        }
        // A length that is too small leaves a rest before the next header.
        let text = format!("Content-Length: 2\r\n\r\n{{}}abc{GOOD}{GOOD}");
        assert_eq!(frames(text.as_bytes()).last().map(String::as_str), Some("good"));
    }

    #[test]
    fn a_length_is_no_room() {
        let text = format!("Content-Length: {}\r\n\r\n", u64::MAX);
        assert_eq!(frames(text.as_bytes()), ["broken: the message is larger than 128 MiB"]);
        assert_eq!(frames(b"Content-Length: 100000000\r\n\r\n{}"), Vec::<String>::new());
    }
}
