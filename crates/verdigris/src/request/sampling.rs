//! A method for each option of sampling.

use crate::request::Request;
use crate::sampling::sampling_options;

macro_rules! methods {
    ($(
        $name:ident: $value:ty => $kept:ty = $default:expr, $letter:literal, $range:expr, $about:literal
        $(, $more:literal)*;
    )*) => {
        impl Request<'_> {
            $(
                #[doc = $about]
                $(#[doc = $more])*
                pub fn $name(mut self, value: $value) -> Self {
                    self.sampling.$name = value.into();
                    self
                }
            )*
        }
    };
}

sampling_options!(methods);
