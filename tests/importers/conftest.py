import pytest


@pytest.fixture(autouse=True, scope="package")
def own_key(tmp_path_factory):
    """Keep the key that signs ledgers out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        yield
