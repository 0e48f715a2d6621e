// SPDX-License-Identifier: BSD-3-Clause
//! Checks a file before flow records are written to it: only a file of flow records in the same
//! format is appended to or emptied. It reads the first and the last line only.
//!
//! A killed run may leave a cut last line, and a power failure zeros behind it. Such a line is no
//! record and is removed.

use super::Format;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Longest line of a record, in bytes.
const LINE_MAX: u64 = 4096;
/// Most zeros that a power failure leaves at the end; more than one line.
const TAIL_MAX: u64 = 1 << 20;
/// The first bytes of every record in JSON.
const JSON_BEGIN: &[u8] = b"{\"ip_version\":";

/// The end of a file of records.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Length of the file without a cut last line.
    pub(super) whole: u64,
    /// The last record is whole, but its line feed is missing.
    pub(super) lacks_line_feed: bool,
}

/// Returns the end of the records in `file`; `None` if it has other contents. The end is 0 for an
/// empty file, and for a file with only a cut line.
pub(super) fn find_end(file: &File, format: Format) -> io::Result<Option<End>> {
    let len = file.metadata()?.len();
    let head = read(file, 0, len.min(LINE_MAX))?;
    let from = len.saturating_sub(TAIL_MAX);
    let tail = read(file, from, len - from)?;
    let last_feed = tail.iter().rposition(|byte| *byte == b'\n');
    let (lines, rest) = tail.split_at(last_feed.map_or(0, |feed| feed + 1));
    let rest = trim_zeros(rest);
    let whole = from + lines.len() as u64;
    let begins_well = match head.iter().position(|byte| *byte == b'\n') {
        Some(feed) => is_first_line(&head[..=feed], format),
        None => from == 0 && last_feed.is_none(),
    };
    let last = lines.strip_suffix(b"\n").unwrap_or(lines);
    let last = last.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let ends_well = lines.is_empty() || is_record(last, format) || is_heading(last, format);
    if !begins_well || !ends_well || from > 0 && lines.is_empty() {
        return Ok(None);
    }
    if format == Format::JsonLines && is_record(rest, format) {
        return Ok(Some(End { whole: whole + rest.len() as u64, lacks_line_feed: true }));
    }
    let is_cut = match format {
        Format::Csv if lines.is_empty() => format.heading().as_bytes().starts_with(rest),
        _ => may_begin_record(rest, format),
    };
    Ok(is_cut.then_some(End { whole, lacks_line_feed: false }))
}

fn read(file: &File, from: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

fn trim_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0);
    &bytes[..end.map_or(0, |last| last + 1)]
}

fn is_first_line(line: &[u8], format: Format) -> bool {
    match format {
        Format::JsonLines => is_record(line, format),
        Format::Csv => line == format.heading().as_bytes(),
    }
}

fn is_heading(line: &[u8], format: Format) -> bool {
    format == Format::Csv && [line, b"\n"].concat() == format.heading().as_bytes()
}

fn is_record(line: &[u8], format: Format) -> bool {
    match format {
        Format::JsonLines => {
            let record = serde_json::from_slice::<Value>(line).unwrap_or_default();
            let members = ["ip_version", "proto", "src", "dst", "start_ns", "end_ns"];
            members.iter().all(|member| record.get(member).is_some())
        }
        Format::Csv => {
            let commas = |text: &[u8]| text.iter().filter(|byte| **byte == b',').count();
            may_begin_record(line, format) && commas(line) == commas(format.heading().as_bytes())
        }
    }
}

/// True if the bytes may be the beginning of a record.
fn may_begin_record(bytes: &[u8], format: Format) -> bool {
    let is_short = (bytes.len() as u64) < LINE_MAX;
    is_short
        && match format {
            Format::JsonLines => bytes.starts_with(JSON_BEGIN) || JSON_BEGIN.starts_with(bytes),
            Format::Csv => bytes.iter().zip(b"4,").all(|(byte, wanted)| match wanted {
                b'4' => matches!(byte, b'4' | b'6'),
                wanted => byte == wanted,
            }),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const JSON: &str = "{\"ip_version\":4,\"proto\":17,\"src\":\"10.0.0.1\",\"dst\":\"10.0.0.2\",\
        \"start_ns\":1,\"end_ns\":2}";
    const ROW: &str = "4,17,10.0.0.1,1,10.0.0.2,53,0,,1,1,1,70,48,0,1,80,58,0,open,exit,0,0x0";

    fn end(text: &str, format: Format) -> Option<End> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        find_end(&file, format).unwrap()
    }

    fn whole(len: usize) -> Option<End> {
        Some(End { whole: len as u64, lacks_line_feed: false })
    }

    #[test]
    fn records_end_before_a_line_that_is_cut() {
        let csv = Format::Csv.heading();
        for (lines, last, format) in [
            (format!("{JSON}\n{JSON}\n"), JSON, Format::JsonLines),
            (String::new(), JSON, Format::JsonLines),
            (format!("{csv}{ROW}\n"), ROW, Format::Csv),
            (csv.clone(), ROW, Format::Csv),
            (String::new(), &csv[..csv.len() - 1], Format::Csv),
        ] {
            for cut in 0..last.len() {
                let text = format!("{lines}{}", &last[..cut]);
                assert_eq!(end(&text, format), whole(lines.len()), "{text:?}");
                let zeros = format!("{text}{}", "\0".repeat(5000));
                assert_eq!(end(&zeros, format), whole(lines.len()), "{text:?} and zeros");
            }
        }
    }

    #[test]
    fn a_record_that_lacks_its_line_feed_only_is_kept() {
        let text = format!("{JSON}\n{JSON}");
        let expected = End { whole: text.len() as u64, lacks_line_feed: true };
        assert_eq!(end(&text, Format::JsonLines), Some(expected));
    }

    #[test]
    fn long_files_are_files_of_records_by_their_ends() {
        let text = format!("{JSON}\n").repeat(20_000);
        assert!(text.len() as u64 > TAIL_MAX);
        assert_eq!(end(&format!("{text}{{\"ip"), Format::JsonLines), whole(text.len()));
        assert_eq!(end(&format!("{text}bye\n"), Format::JsonLines), None);
        assert_eq!(end(&format!("hello\n{text}"), Format::JsonLines), None);
    }

    #[test]
    fn what_is_no_file_of_records_is_distinguished() {
        for text in
            ["{}", "{}\n", "{\"a\":1}\n", "hello", "\n", "[1]\n", ROW, "\u{fffd}\n", "{\n}\n"]
        {
            assert_eq!(end(text, Format::JsonLines), None, "{text:?}");
        }
        for text in ["a,b\n1,2\n", "a", "\n", JSON, "ip_version,proto\n4,6\n", "4,17"] {
            assert_eq!(end(text, Format::Csv), None, "{text:?}");
        }
        let other = format!("{}1,2,3\n", Format::Csv.heading());
        assert_eq!(end(&other, Format::Csv), None);
        let mixed = format!("{JSON}\n{}", Format::Csv.heading());
        assert_eq!(end(&mixed, Format::JsonLines), None);
        let long = format!("{JSON}\n{{\"ip_version\":{}", "1".repeat(5000));
        assert_eq!(end(&long, Format::JsonLines), None);
    }
}
