"""How pixel values are scaled before an encoder sees them."""

MEAN = (0.485, 0.456, 0.406)  # of ImageNet, as the paper says
STD = (0.229, 0.224, 0.225)
