//! Object stores with the S3 protocol.

use std::sync::Arc;

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::prelude::SessionContext;
use object_store::aws::AmazonS3Builder;

use crate::error::Failure;

/// Registers the bucket of an address, with credentials from the environment (`AWS_ACCESS_KEY_ID`, ...).
pub(crate) fn register(context: &SessionContext, url: &ListingTableUrl) -> Result<(), Failure> {
    if url.scheme() != "s3" {
        return Ok(());
    }
    let bucket = url.get_url().host_str().unwrap_or_default();
    let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build();
    let store = store.map_err(|error| Failure::Usage(format!("cannot open the bucket {bucket}: {error}")))?;
    context.register_object_store(url.object_store().as_ref(), Arc::new(store));
    Ok(())
}
