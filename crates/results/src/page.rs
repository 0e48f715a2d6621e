// SPDX-License-Identifier: BSD-3-Clause
//! The frame of an HTML page. The page needs no other file, follows the reader's choice of light or
//! dark, and is well-formed XML as well.

use crate::plot::{Colour, key};
use maud::{Markup, PreEscaped, html};

/// Text by which such a page is recognised.
const MARK: &str = r#"<meta name="generator" content="Millrace"/>"#;

const STYLE: &str = include_str!("page.css");

/// Returns true if `text` is the beginning of such a page.
pub fn is_ours(text: &str) -> bool {
    text.contains(MARK)
}

/// Returns the page of a header, a main part and a footer.
pub fn page_of(title: &str, [header, main, footer]: [Markup; 3]) -> String {
    let page = html! {
        (PreEscaped("<!DOCTYPE html>\n"))
        html xmlns="http://www.w3.org/1999/xhtml" lang="en" {
            head {
                (PreEscaped(r#"<meta charset="utf-8"/>"#)) (PreEscaped(MARK))
                (PreEscaped(r#"<meta name="viewport" content="width=device-width"/>"#))
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (header) }
                main { (main) }
                footer { (footer) }
            }
        }
    };
    page.into_string()
}

/// Returns a picture with its caption.
pub fn figure(caption: &str, svg: &str) -> Markup {
    html! {
        figure role="img" aria-label=(caption) {
            figcaption { (caption) }
            (PreEscaped(svg))
        }
    }
}

/// Returns names with their colours.
pub fn legend(keys: impl IntoIterator<Item = (impl AsRef<str>, Colour)>) -> Markup {
    html! {
        ul.legend {
            @for (name, colour) in keys {
                li { (PreEscaped(key(colour))) (name.as_ref()) }
            }
        }
    }
}
