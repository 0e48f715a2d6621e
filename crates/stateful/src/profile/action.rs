// SPDX-License-Identifier: BSD-3-Clause
//! Actions of a program, as profiles write them: a table with one verb, or the verb alone.

use crate::program::Action;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// Reads a file that a profile names; the error says what is wrong with it.
pub(super) type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// Largest file that a program sends.
const FILE_MAX: usize = 64 << 20;

/// An action, whose file has not been read.
#[derive(Clone, Debug)]
pub(super) enum ActionText {
    /// Complete.
    Ready(Action),
    /// Sends a file.
    SendFile(PathBuf),
    /// Repeats actions.
    Repeat(u16, Vec<ActionText>),
}

impl ActionText {
    /// Reads the files that the action names.
    pub(super) fn resolve(self, read: ReadFile<'_>) -> Result<Action, String> {
        match self {
            Self::Ready(action) => Ok(action),
            Self::SendFile(path) => {
                let refuse = |fault| format!("send_file: cannot read {}: {fault}", path.display());
                let bytes = read(&path).map_err(refuse)?;
                match bytes.len() {
                    0..=FILE_MAX => Ok(Action::SendBytes(bytes.into())),
                    _ => Err(refuse(format!("it has more than {FILE_MAX} bytes"))),
                }
            }
            Self::Repeat(count, body) => {
                let body = body.into_iter().map(|it| it.resolve(read)).collect::<Result<_, _>>();
                Ok(Action::Repeat(count, body?))
            }
        }
    }
}

/// Verbs, for error texts.
const VERBS: &[&str] =
    &["send", "send_hex", "send_file", "receive", "delay_ms", "delay_us", "repeat"];

/// Verbs that stand alone.
const ALONE: &[&str] = &["wait_for_close", "hold", "close", "reset"];

/// A number of bytes, or a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Sent {
    Bytes(u32),
    Text(String),
}

/// A time, or a range of times.
#[derive(Deserialize)]
#[serde(untagged)]
enum Delay {
    Fixed(u32),
    Random([u32; 2]),
}

impl Delay {
    /// Returns the action; the times are in units of so many microseconds.
    fn action<E: de::Error>(self, verb: &str, unit_us: u32) -> Result<Action, E> {
        let [min, max] = match self {
            Self::Fixed(time) => [time; 2],
            Self::Random(range) => range,
        };
        let us = |time: u32| {
            let most = u32::MAX / unit_us;
            let fault = || E::custom(format!("{verb}: {time} is too long; the most are {most}"));
            time.checked_mul(unit_us).ok_or_else(fault)
        };
        Ok(Action::Delay(us(min)?, us(max)?))
    }
}

/// Reads bytes as hexadecimal digits, two for each.
fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).map(|it| it as u8);
    let (pairs, rest) = (text.as_bytes().chunks_exact(2), text.len() % 2);
    let bytes = pairs.map(|pair| Some(digit(&pair[0])? << 4 | digit(&pair[1])?));
    (rest == 0).then(|| bytes.collect()).flatten()
}

struct ActionVisitor;

impl<'de> Visitor<'de> for ActionVisitor {
    type Value = ActionText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an action, such as { send = 20 }, { receive = 20 } or \"close\"")
    }

    fn visit_str<E: de::Error>(self, verb: &str) -> Result<ActionText, E> {
        match verb {
            "wait_for_close" => Ok(ActionText::Ready(Action::WaitForClose)),
            "hold" => Ok(ActionText::Ready(Action::Hold)),
            "close" => Ok(ActionText::Ready(Action::Close)),
            "reset" => Ok(ActionText::Ready(Action::Reset)),
            other => Err(E::unknown_variant(other, ALONE)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ActionText, A::Error> {
        let Some(verb) = map.next_key::<String>()? else {
            return Err(de::Error::custom("an action needs a verb, such as { send = 20 }"));
        };
        let action = match verb.as_str() {
            "send" => ActionText::Ready(match map.next_value()? {
                Sent::Bytes(len) => Action::Send(len),
                Sent::Text(text) => Action::SendBytes(text.into_bytes().into()),
            }),
            "send_hex" => match bytes_of_hex(&map.next_value::<String>()?) {
                Some(bytes) => ActionText::Ready(Action::SendBytes(bytes.into())),
                None => {
                    let fault = "send_hex: needs pairs of hexadecimal digits, such as \"0d0a\"";
                    return Err(de::Error::custom(fault));
                }
            },
            "send_file" => ActionText::SendFile(map.next_value()?),
            "receive" => ActionText::Ready(Action::Receive(map.next_value()?)),
            "delay_ms" => ActionText::Ready(map.next_value::<Delay>()?.action(&verb, 1000)?),
            "delay_us" => ActionText::Ready(map.next_value::<Delay>()?.action(&verb, 1)?),
            "repeat" | "do" => return repeat(verb, map),
            other => return Err(de::Error::unknown_variant(other, VERBS)),
        };
        match map.next_key::<String>()? {
            None => Ok(action),
            Some(more) => Err(de::Error::custom(format!(
                "{verb} and {more}: an action has one verb; write two actions"
            ))),
        }
    }
}

/// Reads `repeat` and `do`, in either order.
fn repeat<'de, A: MapAccess<'de>>(first: String, mut map: A) -> Result<ActionText, A::Error> {
    let (mut count, mut body) = (None, None);
    let mut key = Some(first);
    while let Some(name) = key {
        match name.as_str() {
            "repeat" => count = Some(map.next_value()?),
            "do" => body = Some(map.next_value()?),
            other => return Err(de::Error::unknown_field(other, &["repeat", "do"])),
        }
        key = map.next_key()?;
    }
    let count = count.ok_or_else(|| de::Error::missing_field("repeat"))?;
    let body = body.ok_or_else(|| de::Error::missing_field("do"))?;
    Ok(ActionText::Repeat(count, body))
}

impl<'de> Deserialize<'de> for ActionText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ActionVisitor)
    }
}
