"""An object store on loopback, for surveys in a bucket: moto's S3, in a thread of this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4


@contextmanager
def s3() -> Iterator[str]:
    """Serve an S3 with one empty bucket, where this process and its children find it; give its address."""
    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    told = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    s3fs.S3FileSystem.clear_instance_cache()  # of a server that was there before
    try:
        bucket = f"surveys-{uuid4().hex[:8]}"  # moto remembers those of a server before
        s3fs.S3FileSystem().mkdir(bucket)
        yield f"s3://{bucket}"
    finally:
        server.stop()
        s3fs.S3FileSystem.clear_instance_cache()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
