"""The border to PyTorch's own compiler: the only place that loads torch.fx and torch._dynamo, for those who ask."""
