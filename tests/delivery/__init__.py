import pytest

# What a scenario's player asserts is shown as in a test.
pytest.register_assert_rewrite("tests.delivery.sender")
