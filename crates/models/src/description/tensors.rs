//! All weights of a decoder, one after the other.
//!
//! Every field is named here, so that the compiler shows where a weight would be left out.

use super::parts::{
    AlternatingPart, AlternatingParts, AttentionParts, BothParts, ConvolutionParts, DeltaNetParts, DenseParts,
    FeedForwardParts, LatentParts, Layer, MambaParts, MixerParts, MixtureParts, Parts, PerLayerPart, PerLayerParts,
    Projection, Scales, Taps,
};

/// A weight: a matrix or a vector.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tensor<'a, M, V> {
    Matrix(&'a M),
    Vector(&'a V),
}

/// Weights with the names of their roles.
pub(crate) struct Tensors<'a, M, V>(pub(crate) Vec<(&'static str, Tensor<'a, M, V>)>);

impl<M, V> Parts<M, V> {
    /// All weights, those of each layer in the order of the layers.
    pub(crate) fn tensors(&self) -> Tensors<'_, M, V> {
        let Self { embedding, positions, embedding_norm, layers, norm, output, per_layer, layer_scales, alternating } =
            self;
        let mut all = Tensors(Vec::new());
        all.matrix("embedding", embedding);
        positions.iter().for_each(|positions| all.matrix("positions", positions));
        all.scales("embedding norm", embedding_norm);
        layers.iter().for_each(|layer| all.layer(layer));
        all.some_scales("norm", norm);
        all.matrix("output", output);
        per_layer.iter().for_each(|per_layer| all.per_layer(per_layer));
        all.vectors("layer scales", layer_scales);
        alternating.iter().for_each(|alternating| all.alternating(alternating));
        all
    }
}

impl<M, V> Layer<M, V> {
    /// All its matrices.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &M> {
        let mut all = Tensors(Vec::new());
        all.layer(self);
        all.0.into_iter().filter_map(|(_, tensor)| match tensor {
            Tensor::Matrix(matrix) => Some(matrix),
            Tensor::Vector(_) => None,
        })
    }
}

impl<'a, M, V> Tensors<'a, M, V> {
    fn matrix(&mut self, name: &'static str, matrix: &'a M) {
        self.0.push((name, Tensor::Matrix(matrix)));
    }

    fn vector(&mut self, name: &'static str, vector: &'a V) {
        self.0.push((name, Tensor::Vector(vector)));
    }

    fn vectors(&mut self, name: &'static str, vectors: &'a Option<V>) {
        vectors.iter().for_each(|vector| self.vector(name, vector));
    }

    fn scales(&mut self, name: &'static str, scales: &'a Option<Scales<V>>) {
        scales.iter().for_each(|scales| self.some_scales(name, scales));
    }

    fn some_scales(&mut self, name: &'static str, scales: &'a Scales<V>) {
        let Scales { weight, bias } = scales;
        self.vector(name, weight);
        self.vectors("norm bias", bias);
    }

    fn projection(&mut self, name: &'static str, projection: &'a Projection<M, V>) {
        let Projection { matrix, bias } = projection;
        self.matrix(name, matrix);
        self.vectors("bias", bias);
    }

    fn taps(&mut self, taps: &'a Taps<V>) {
        let Taps { weights, bias } = taps;
        self.vector("taps", weights);
        self.vectors("taps bias", bias);
    }

    fn layer(&mut self, layer: &'a Layer<M, V>) {
        let Layer { mixer_norm, mixer, after_mixer, feed_forward_norm, feed_forward, after_feed_forward } = layer;
        self.scales("mixer norm", mixer_norm);
        self.mixer(mixer);
        self.scales("after mixer", after_mixer);
        self.scales("feed-forward norm", feed_forward_norm);
        match feed_forward {
            FeedForwardParts::Dense(dense) => self.dense(dense),
            FeedForwardParts::Mixture(mixture) => self.mixture(mixture),
            FeedForwardParts::Both(both) => {
                let BothParts { dense, after_dense, router_norm, mixture_norm, mixture, after_mixture } = &**both;
                self.dense(dense);
                self.some_scales("after network", after_dense);
                self.some_scales("router norm", router_norm);
                self.some_scales("mixture norm", mixture_norm);
                self.mixture(mixture);
                self.some_scales("after mixture", after_mixture);
            }
            FeedForwardParts::None => {}
        }
        self.scales("after feed-forward", after_feed_forward);
    }

    fn mixer(&mut self, mixer: &'a MixerParts<M, V>) {
        match mixer {
            MixerParts::Attention(of) => {
                let AttentionParts { query, key, value, query_norm, key_norm, sinks, output, value_norm } = of;
                self.projection("query", query);
                key.iter().for_each(|key| self.projection("key", key));
                value.iter().for_each(|value| self.projection("value", value));
                self.projection("output", output);
                self.vectors("value norm", value_norm);
                self.vectors("query norm", query_norm);
                self.vectors("key norm", key_norm);
                self.vectors("sinks", sinks);
            }
            MixerParts::Latent(LatentParts { query_down, query, down, norm, keys, values, output }) => {
                if let Some((down, norm)) = query_down {
                    self.projection("query down", down);
                    self.vector("query norm", norm);
                }
                for (name, projection) in [("query", query), ("down", down), ("output", output)] {
                    self.projection(name, projection);
                }
                self.vector("latent norm", norm);
                keys.iter().for_each(|matrix| self.matrix("latent keys", matrix));
                values.iter().for_each(|matrix| self.matrix("latent values", matrix));
            }
            MixerParts::Convolution(ConvolutionParts { input, taps, output }) => {
                self.projection("input", input);
                self.taps(taps);
                self.projection("output", output);
            }
            MixerParts::DeltaNet(of) => {
                let DeltaNetParts { input, gate, strength, rate, taps, decay, rate_bias, norm, output } = &**of;
                for (name, projection) in
                    [("input", input), ("gate", gate), ("strength", strength), ("rate", rate), ("output", output)]
                {
                    self.projection(name, projection);
                }
                self.taps(taps);
                for (name, vector) in [("decay", decay), ("rate bias", rate_bias), ("net norm", norm)] {
                    self.vector(name, vector);
                }
            }
            MixerParts::Mamba(of) => {
                let MambaParts { input, taps, decay, rate_bias, skip, norm, output } = &**of;
                self.projection("input", input);
                self.taps(taps);
                for (name, vector) in [("decay", decay), ("rate bias", rate_bias), ("skip", skip), ("net norm", norm)] {
                    self.vector(name, vector);
                }
                self.projection("output", output);
            }
        }
    }

    fn dense(&mut self, dense: &'a DenseParts<M, V>) {
        let DenseParts { gate, up, down } = dense;
        gate.iter().for_each(|gate| self.projection("gate", gate));
        self.projection("up", up);
        self.projection("down", down);
    }

    fn mixture(&mut self, mixture: &'a MixtureParts<M, V>) {
        let MixtureParts { router, choice_bias, experts, shared, shared_gate, expert_scales, latent } = mixture;
        self.projection("router", router);
        self.vectors("choice bias", choice_bias);
        experts.iter().chain(shared).for_each(|expert| self.dense(expert));
        shared_gate.iter().for_each(|gate| self.matrix("shared gate", gate));
        self.vectors("expert scales", expert_scales);
        latent.iter().flatten().for_each(|projection| self.projection("latent", projection));
    }

    fn alternating(&mut self, parts: &'a AlternatingParts<M, V>) {
        let AlternatingParts { into, out, layers } = parts;
        into.iter().for_each(|projection| self.projection("into a stream", projection));
        out.iter().for_each(|projection| self.projection("out of a stream", projection));
        for part in layers {
            let AlternatingPart { router_norm, router, prediction, correction, scale, left, right, past_norm } = part;
            self.some_scales("router norm", router_norm);
            for (name, projection) in [
                ("stream router", router),
                ("prediction", prediction),
                ("correction", correction),
                ("past attention", left),
                ("back", right),
            ] {
                self.projection(name, projection);
            }
            self.vectors("stream scale", scale);
            self.some_scales("norm past attention", past_norm);
        }
    }

    fn per_layer(&mut self, parts: &'a PerLayerParts<M, V>) {
        let PerLayerParts { embedding, projection, norm, layers } = parts;
        self.matrix("embedding of layers", embedding);
        self.projection("projection to layers", projection);
        self.some_scales("norm of layers", norm);
        for PerLayerPart { gate, projection, norm } in layers {
            self.projection("gate of a layer", gate);
            self.projection("projection of a layer", projection);
            self.some_scales("norm of a layer", norm);
        }
    }
}
